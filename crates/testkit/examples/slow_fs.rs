//! Mounts a slow file system: `slow_fs SOURCE MOUNTPOINT MILLISECONDS`. Prints `ready`. For each
//! line on standard input it prints the number of requests so far; it unmounts at the end of input.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Duration;

use firstbyte_testkit::SlowFs;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, at, milliseconds] = arguments.as_slice() else {
        return Err(io::Error::other("usage: slow_fs SOURCE MOUNTPOINT MILLISECONDS"));
    };
    let delay = Duration::from_secs_f64(milliseconds.parse::<f64>().map_err(io::Error::other)? / 1000.0);
    let mounted = SlowFs::mount(Path::new(source), Path::new(at), delay)?;
    let mut out = io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        writeln!(out, "{}", mounted.requests())?;
        out.flush()?;
    }
    Ok(())
}
