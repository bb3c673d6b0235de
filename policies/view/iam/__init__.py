"""IAM documents and roles as rules see them."""
