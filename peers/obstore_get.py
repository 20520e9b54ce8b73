"""obstore as a contender: streams one object to a file. Usage: obstore_get.py ENDPOINT KEY FILE"""

import os
import sys

from obstore.store import S3Store

endpoint, key, path = sys.argv[1:]
# obstore trusts only the system's authorities. With another authority it must not verify.
options = {"allow_http": True, "allow_invalid_certificates": "SSL_CERT_FILE" in os.environ}
store = S3Store("bench", endpoint=endpoint, virtual_hosted_style_request=False, client_options=options)
with open(path, "wb") as file:
    for part in store.get(key).stream(min_chunk_size=8 << 20):
        file.write(part)
