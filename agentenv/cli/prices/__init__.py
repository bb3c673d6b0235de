"""Looks prices up: which lines of AWS's price list are which of ours, how they are asked for, what is made of them."""
