//! `locations`: prints the locations in stores that begin with a text, for the scripts of
//! `completions`. A shell waits for this verb at each Tab, so the verb lists only one page, gives
//! up after a few seconds, and hides failures.

use std::ffi::OsStr;
use std::time::Duration;

use clap::Args;
use firstbyte_location::{EntryKind, Location, ObjectLocation};
use firstbyte_store::{ListOptions, Store};

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Exit, Result};

/// Maximum time without data before a request fails. A shell waits for the request.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// Maximum number of names to offer. A shell asks the user before it shows more.
const MAX_OFFERED_NAMES: usize = 200;

/// Print the locations that a text begins, for the completion scripts
#[derive(Args)]
#[command(hide = true)]
pub struct LocationsArgs {
    /// Beginning of a location in a store: s3://BUCKET/KEY
    #[arg(value_name = "TEXT", default_value = "")]
    beginning: String,
}

pub fn run(args: &LocationsArgs, globals: &Globals) -> Result<Exit> {
    let mut options = globals.options();
    options.set_read_timeout(MAX_WAIT.min(globals.read_timeout.get()));
    let found = globals.store_of(options.store).ok().and_then(|store| begun_by(&args.beginning, &store));
    found.unwrap_or_default().iter().try_for_each(console::print)?;
    Ok(Exit::Done)
}

/// Returns the locations that begin with `text`: buckets, prefixes that end in `/`, and objects.
/// `None` if no store could list them.
fn begun_by(text: &str, store: &Store) -> Option<Vec<String>> {
    let (above, beginning) = text.split_at(text.rfind('/')? + 1);
    // If the text has no bucket yet, the buckets of the service are listed.
    let is_service = above.ends_with("://");
    let directory = match Location::parse(OsStr::new(above)) {
        Ok(Location::Object(object)) if is_service => {
            Location::Object(ObjectLocation { bucket: String::new(), ..object.with_key("") })
        }
        Ok(location @ Location::Object(_)) => location,
        _ => return None,
    };
    let options = ListOptions { beginning: beginning.to_owned(), ..ListOptions::default() };
    let page = store.list_page(&directory, &options).ok()?;
    let names = page.entries.into_iter().take(MAX_OFFERED_NAMES).filter_map(|entry| {
        let end = if is_service || entry.kind == EntryKind::Directory { "/" } else { "" };
        let name = String::from_utf8(entry.name).ok()?;
        Some(format!("{above}{}{end}", name.trim_end_matches('/')))
    });
    // A service lists all of its buckets, so those that do not begin with `text` are removed here.
    Some(names.filter(|name| name.starts_with(text)).collect())
}
