"""Send a folder to a store, and lay it into another one as a job does; print the seconds."""

import json
import subprocess
import sys
import tempfile
import time

from wherry.store.blobs import put_blob
from wherry.store.opening import open_store
from wherry.worker.formats import blob_key
from wherry.worker.shipping import boot_command, worker_zip
from wherry.workspace.archive import pack, upload
from wherry.workspace.tree import scan

folder, url, endpoint = sys.argv[1:]
begin = time.perf_counter()
zipped, digest = worker_zip()
archive = pack(scan(folder))
store = open_store(url, endpoint=endpoint)
put_blob(store, [zipped], digest)
upload(archive, store)
sent = time.perf_counter() - begin
with tempfile.TemporaryDirectory(prefix="wherry-bench-") as target:
    words = ["unpack", f"{url}/{blob_key(archive.digest)}", f"{target}/tree", "--", "true"]
    begin = time.perf_counter()
    subprocess.run(boot_command(url, digest, words), check=True)
    unpacked = time.perf_counter() - begin
json.dump([sent, unpacked], sys.stdout)
