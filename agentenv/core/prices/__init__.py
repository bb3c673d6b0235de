"""Price books: a dated file for each region with every price, its unit, source and day, and its readers.

`units` are the words of money, which refuse to be mixed; `names` says which prices a region has to have; `book` reads
the file of a region; `writing` puts one into words again, for whoever looks prices up anew.
"""
