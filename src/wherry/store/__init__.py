"""Objects by URL: a folder of this machine, or a bucket of S3, behind one small interface."""
