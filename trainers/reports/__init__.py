"""Pages made from scores.json.

`results_page` lists results; `table3_rows` trains rows of Table 3, and shows
them beside the paper's.
"""
