"""The simulated AWS endpoint, asked by boto3 as a program would ask it."""
