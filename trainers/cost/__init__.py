"""Estimates the cost of a training before it starts.

`cost_estimate` combines the exact counts of `flops` with the figures of
`devices`; `cost_report` formats the result.
"""
