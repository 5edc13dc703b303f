"""AWS Batch on this machine: a control plane like AWS's, and engines that run its jobs.

`batch` is the control plane: pure Python, no HTTP, no threads of its own but one. `engines` run
containers: as processes, or in Docker. `cloud` is everything else of AWS, which is moto's server.
`server` puts all of it behind one port. Nothing in Wherry but the command line knows of this room.
"""
