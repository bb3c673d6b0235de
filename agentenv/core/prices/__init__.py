"""What things cost: a dated file a region with every price, its unit, its source and its day, and what reads them.

`units` are the words of money, which refuse to be mixed; `names` says which prices a region has to have; `book` reads
the file of a region; `writing` puts one into words again, for whoever looks prices up anew.
"""
