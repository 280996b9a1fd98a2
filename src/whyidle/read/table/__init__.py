"""Tables of text as columns, vectorised: a month of 512 GPUs is 22 million rows, and Python sees none of them.

`rows` cuts text into cells, `cells` turns a column of them into numbers or keys, `times` into nanoseconds, `names`
knows what a column's header means, `gather` sorts rows by GPU into series.
"""
