"""Refresh the price books from the AWS Price List and the Spot price history."""
