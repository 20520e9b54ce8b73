"""S3 by the package firstbyte, which comes as a layer: `cp`, and a lazy `open`.

Handler: `with_firstbyte.handle`.
"""

import firstbyte

import answer


def options(call: answer.Call) -> dict:
    endpoint_url = call.event.get("endpoint_url")
    return {"endpoint_url": endpoint_url} if endpoint_url else {}


def copied(call: answer.Call, *, recursive: bool) -> dict:
    path = call.destination()
    try:
        receipt = firstbyte.cp(call.text("source"), path, recursive=recursive, **options(call))
    except FileNotFoundError as error:
        raise answer.NotFound(f"{error}; check the name") from error
    except PermissionError as error:
        raise answer.Denied(f"{error}; the role lacks s3:GetObject or s3:ListBucket") from error
    call.stages["first_byte_seconds"] = call.stages["ready_seconds"] + (receipt.get("first_byte_seconds") or 0.0)
    call.reached("all")
    return receipt | {"verb": call.event["action"], "destination": str(path)}


def opened(call: answer.Call) -> dict:
    length = 0
    # Without the cache, so that bytes that are read are not written to /tmp.
    with firstbyte.open(call.text("source"), buffering=0, cache=False, **options(call)) as file:
        call.reached("opened")
        wanted = part(call.event.get("read", "all"), file.size)
        buffer = memoryview(bytearray(1 << 20))
        while length < wanted and (read := file.readinto(buffer[: wanted - length])):
            call.reached("first_byte")
            length += read
        call.reached("all" if wanted == file.size else "part")
        return {"objects": 1, "bytes": length, "version": file.version}


def part(read: str, size: int) -> int:
    """Returns how many bytes `all`, or a share such as `1%`, is."""
    if read == "all":
        return size
    if not read.endswith("%"):
        raise answer.BadInput(f"`read` is {read}; this function knows `all` and a share such as `1%`")
    return min(size, -int(-size * float(read[:-1]) // 100))


handle = answer.handler({
    "download": ({"source", "destination"}, lambda call: copied(call, recursive=False)),
    "copy-many": ({"source", "destination"}, lambda call: copied(call, recursive=True)),
    "open": ({"source", "read"}, opened),
})
