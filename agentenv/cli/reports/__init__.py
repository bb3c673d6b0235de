"""Files that people read: reports of cost, plots of estimates, exports."""
