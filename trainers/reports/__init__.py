"""Pages made from scores.json: results, and Table 3 next to the paper's."""
