"""Why is my AWS Batch job not running, or why did it fail? Facts are gathered, causes deduced.

`diagnose` is the way in. Gathering (`facts`) is all that talks to AWS; from then on everything is
a pure function from facts to findings: `waiting`, `starting`, `running`, `ended`, with `arrays`,
`nodes` and `retries` for what is peculiar to those, and `fit` for whether a request can run in an
environment at all. `preflight` asks the same of a request that has not been sent.
"""
