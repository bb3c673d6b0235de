"""What an environment costs before it is there: from its settings, a price book, and assumptions that are all named.

Each module looks after some lines of the estimate: `platform` what is always there, `network` ways in and out, `homes`
files, `sandboxes` nodes with what runs on them. `assumptions` is all that no setting says; `estimate` puts it together.
"""
