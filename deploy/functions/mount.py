"""Files of a mounted file system (EFS, FSx, S3 Files): `shutil.copy`, `copytree`, and the check
that a directory is there, which reads nothing.

Handler: `mount.handle`. To be set beside the function of firstbyte, with the same events.
"""

import shutil
from pathlib import Path

import answer


def source_of(call: answer.Call) -> Path:
    path = Path(call.text("source"))
    if not path.exists():
        raise answer.NotFound(f"{path}: not found; check the name, and the function's file system configuration")
    call.reached("opened")
    return path


def download(call: answer.Call) -> dict:
    source, path = source_of(call), call.destination()
    call.room(path, source.stat().st_size)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
    call.reached("all")
    return {"destination": str(path), "objects": 1, "bytes": path.stat().st_size}


def copy_many(call: answer.Call) -> dict:
    source, root = source_of(call), call.destination()
    shutil.copytree(source, root, dirs_exist_ok=True)
    call.reached("all")
    sizes = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    return {"destination": str(root), "objects": len(sizes), "bytes": sum(sizes)}


def mounted(call: answer.Call) -> dict:
    directory = Path(call.text("directory"))
    if not directory.is_dir() or not any(directory.iterdir()):
        why = "is empty" if directory.is_dir() else "there is no such directory"
        raise answer.NotMounted(f"{directory}: {why}; check the function's file system configuration")
    call.stages.clear()
    call.reached("ready")
    if (name := call.event.get("file")) is None:
        return {}
    length = 0
    with open(directory / name, "rb") as file:
        call.reached("opened")
        while block := file.read(1 << 20):
            call.reached("first_byte")
            length += len(block)
    call.reached("all")
    return {"objects": 1, "bytes": length}


handle = answer.handler({
    "download": ({"source", "destination"}, download),
    "copy-many": ({"source", "destination"}, copy_many),
    "mounted": ({"directory", "file"}, mounted),
})
