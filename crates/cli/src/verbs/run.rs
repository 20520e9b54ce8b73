//! `run`: runs the verbs in a list, several at a time. Each line of the list is a process of its
//! own, so that lines cannot disturb each other.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::result::Result as StdResult;
use std::thread;
use std::time::Duration;

use clap::Args;
use firstbyte_location::shown;
use firstbyte_store::POLL_INTERVAL;
use firstbyte_transfer::Stop;
use rustix::process::{Pid, Signal, kill_process};
use rustix_futex_sync::Mutex;

use super::input::StoppableInput;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::inside_run::{self, INSIDE};
use crate::render::report::{Output, RunReport};
use crate::signals::{ForcedEnd, GRACE, on_signal_but_hangup};

/// Time from a stop until this process ends: the time that its lines have to end, and some time for
/// the report.
const END_TIME_LIMIT: Duration = GRACE.saturating_add(Duration::from_millis(300));

/// Run the verbs of a list, several at a time
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte run commands.txt
  printf 'cp s3://bucket/%s .\\n' a b c | firstbyte run -
  firstbyte --endpoint-url http://HOST:9000 run --jobs 4 commands.txt

Each line is a verb with its operands and options, as behind `firstbyte`: cp 's3://bucket/a b' data/. Words are separated
by spaces; '...', \"...\" and \\ keep them together. Empty lines, and lines that begin with #, are left out. The global
options of run hold for every line. No line prompts. A line that fails is named, and the others go on.")]
pub struct RunArgs {
    /// The list; `-` is standard input
    #[arg(value_name = "FILE")]
    list: OsString,
    /// Number of lines to run at once
    #[arg(short, long, value_name = "N", default_value = "8")]
    jobs: NonZeroUsize,
}

pub fn run(args: &RunArgs, globals: &Globals) -> Result<Exit> {
    if std::env::var_os(INSIDE).is_some() {
        return Err(Error::usage("a list cannot contain `run`"));
    }
    if console::output_is_closed() {
        return Err(Error::failed("standard output: it is closed"));
    }
    let program = std::env::current_exe().map_err(|error| Error::io("this program", &error))?;
    let stop = Stop::default();
    let raised = stop.clone();
    let ending =
        ForcedEnd { interrupted: END_TIME_LIMIT, terminated: END_TIME_LIMIT, exit: Exit::Interrupted };
    on_signal_but_hangup(ending, move || raised.stop())?;
    let name = shown(&args.list).to_string();
    let report = RunReport::new("run", name.clone(), None);
    let file = match args.list == "-" {
        true => console::standard_input()?,
        false => File::open(&args.list).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::io(&name, &error).advise("check the spelling; it is a file with a verb on each line")
            }
            _ => Error::io(&name, &error),
        })?,
    };
    let lines = BufReader::new(StoppableInput::new(file, &stop)).split(b'\n');
    let runner = Runner {
        program,
        variables: &globals.variables,
        lines: Mutex::new((1_u64..).zip(lines)),
        outcome: Mutex::new(Outcome { report, broken: None }),
        stop: &stop,
        name: &name,
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, || runner.work());
        // The calling thread works too, so the list is run even if no further thread can be
        // started.
        (1..args.jobs.get()).map(start).take_while(io::Result::is_ok).for_each(drop);
        runner.work();
    });
    let Outcome { mut report, broken } = runner.outcome.into_inner();
    if let Some(why) = stop.error() {
        report.fail(why.into());
    } else if let Some(error) = broken {
        report.fail(Error::io(&name, &error));
    }
    // Each line has printed its own result, so `run` prints none.
    let globals = Globals { quiet: true, ..globals.clone() };
    report.end(&globals, Output::Free)
}

/// Results of all lines so far.
struct Outcome {
    /// Receipt and failures. The objects that the receipt counts are the completed lines.
    report: RunReport,
    /// The error that made the rest of the list unreadable.
    broken: Option<std::io::Error>,
}

struct Runner<'a, L> {
    program: PathBuf,
    /// The global options that each line gets, as environment variables.
    variables: &'a [(OsString, OsString)],
    lines: Mutex<L>,
    outcome: Mutex<Outcome>,
    stop: &'a Stop,
    name: &'a str,
}

impl<L: Iterator<Item = (u64, std::io::Result<Vec<u8>>)> + Send> Runner<'_, L> {
    fn work(&self) {
        while !self.stop.is_stopped() {
            let next = self.lines.lock().next();
            let (number, line) = match next {
                None => return,
                Some((_, Err(error))) => {
                    self.outcome.lock().broken.get_or_insert(error);
                    return;
                }
                Some((number, Ok(line))) => (number, line),
            };
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match self.run_line(line) {
                Ok(()) => self.outcome.lock().report.receipt().objects += 1,
                Err(why) => self.report_failed_line(number, line, &why),
            }
        }
    }

    /// Runs one line and waits until it ends.
    fn run_line(&self, line: &[u8]) -> StdResult<(), String> {
        let words = words(line)?;
        let mut command = Command::new(&self.program);
        // The command hands its counts to this process through its standard input, which is the
        // write end of a pipe. So a line that reads its standard input fails; an empty input would
        // look like valid data.
        let (counts, input) = io::pipe().map_err(|error| error.to_string())?;
        // A line has a process group of its own, so that signals of the terminal do not reach the
        // line. This process passes on exactly one signal, because a second one would kill the
        // line.
        command.args(words).stdin(input).process_group(0);
        // Several progress bars would overwrite each other.
        command.envs(self.variables.iter().cloned()).env("FIRSTBYTE_PROGRESS", "never").env(INSIDE, "1");
        let child = command.spawn().map_err(|error| error.to_string())?;
        drop(command);
        let status = self.wait(child).map_err(|error| error.to_string())?;
        inside_run::add(self.outcome.lock().report.receipt(), &counts).map_err(|error| error.to_string())?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => Err(format!("exit code {code}")),
            None => Err(status.to_string()),
        }
    }

    /// Waits for a line. If the run is stopped, stops the line too, which then ends within its
    /// grace period.
    fn wait(&self, mut child: Child) -> std::io::Result<ExitStatus> {
        let mut is_signalled = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.stop.is_stopped() && !is_signalled {
                // The child has not been waited for, so its process id cannot belong to another
                // process yet.
                kill_process(Pid::from_child(&child), Signal::TERM)?;
                is_signalled = true;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn report_failed_line(&self, number: u64, line: &[u8], why: &str) {
        if self.stop.is_stopped() {
            return;
        }
        // The line number and the verb identify the line. Its other words are not printed, because
        // they may be secrets.
        let verb = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let (location, error) =
            (format!("{}:{number}", self.name), format!("{}: {why}", shown(OsStr::from_bytes(verb))));
        console::print_error(&Error::failed(format!("{location}: {error}")));
        self.outcome.lock().report.item_failed(Error::failed(error).item(location));
    }
}

/// Splits a line into words like a shell, without expansion.
fn words(line: &[u8]) -> StdResult<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None | Some(b'"'), b'\\') => {
                let next = bytes.next().ok_or("a \\ at the end of the line")?;
                let word = word.get_or_insert_default();
                // Within quotes, a backslash is an ordinary character unless a special character
                // follows.
                if quote.is_some() && !b"\"\\$`".contains(&next) {
                    word.push(b'\\');
                }
                word.push(next);
            }
            (None, _) if byte.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err("a quote that is not closed".to_owned());
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_as_by_a_shell() {
        let split = |line: &str| words(line.as_bytes()).unwrap();
        assert_eq!(split(r#"cp  's3://b/a b' "c\"d" e\ f ''"#), ["cp", "s3://b/a b", "c\"d", "e f", ""]);
        assert_eq!(split("rm 'a\\b' x*"), ["rm", "a\\b", "x*"]);
        assert_eq!(split(r#"rm "a\b" "c\\d" "\$e""#), ["rm", r"a\b", r"c\d", "$e"]);
        assert_eq!(split("rm a\u{a0}b\r"), ["rm", "a\u{a0}b"]);
        assert_eq!(words(b"rm \xff").unwrap()[1].as_bytes(), b"\xff");
        assert!(words(b"cp 'a").unwrap_err().contains("quote") && words(b"cp a\\").is_err());
    }
}
