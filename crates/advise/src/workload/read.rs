//! Reads a workload from TOML or from options. A field that is not given gets a default if there is
//! a reasonable one; otherwise its absence is an error.

use super::{Access, Compute, Data, Goal, Jobs, Loading, Place, Workload, check};
use crate::fields::{At, Field, FieldError, Fields, Value};
use crate::units;

/// Bytes of one read call where none is stated: the kernel's usual largest read-ahead.
const REQUEST: f64 = 131_072.0;

/// The region where none is stated, the one whose prices are most often quoted.
const REGION: &str = "us-east-1";

/// A workload from the text of a file.
///
/// # Errors
/// The first wrong field, with its line.
pub fn of_text(text: &str) -> Result<Workload, FieldError> {
    let mut root = Fields::parse(text)?;
    let [data, compute, jobs, goal] = ["data", "compute", "jobs", "goal"].map(|name| root.section(name));
    let name =
        root.take("name").map_or(Ok("workload".to_owned()), |field| field.text().map(str::to_owned))?;
    let region = region(&mut root)?;
    root.finish()?;
    from_sections(name, region, data?, compute?, jobs?, goal?)
}

/// Where a field of a workload file stands, `compute.at`; `None` if the file does not have it.
#[must_use]
pub fn position(text: &str, field: &str) -> Option<At> {
    let mut fields = Fields::parse(text).ok()?;
    let Some((section, name)) = field.split_once('.') else { return Some(fields.take(field)?.at) };
    Some(fields.take(section)?.table().ok()?.take(name)?.at)
}

/// A workload from options of the command line: name of the option without its dashes, and text.
/// Each name sets the field of the same name, in any section.
///
/// # Errors
/// The first wrong option.
pub fn of_options(options: &[(&str, String)]) -> Result<Workload, FieldError> {
    let section = |fields: &[(&str, &str)]| {
        let option = |(field, option): &(&str, &str)| {
            let text = &options.iter().find(|(name, _)| name == option)?.1;
            let value = match text.parse() {
                Ok(number) if COUNTS.contains(option) => Value::Number(number),
                _ => Value::Text(text.clone()),
            };
            Some(((*field).to_owned(), format!("--{option}"), value))
        };
        Fields::of_options(fields.iter().filter_map(option).collect())
    };
    let same = |names: &[&'static str]| names.iter().map(|name| (*name, *name)).collect::<Vec<_>>();
    let data = section(&[("size", "data"), ("files", "files"), ("read", "read"), ("passes", "passes")]);
    let compute = section(&same(&["at", "cpu", "startup", "client"]));
    let jobs = section(&[("at_once", "at-once"), ("per_day", "per-day")]);
    let goal = section(&same(&["deadline", "waiting"]));
    let region = region(&mut section(&same(&["in-region"])))?;
    from_sections("options".to_owned(), region, data, compute, jobs, goal)
}

/// Options that are counts, and so have no unit.
const COUNTS: [&str; 4] = ["files", "passes", "at-once", "per-day"];

fn region(root: &mut Fields) -> Result<String, FieldError> {
    let field = root.take("region").or_else(|| root.take("in-region"));
    field.map_or(Ok(REGION.to_owned()), |field| field.text().map(str::to_owned))
}

fn from_sections(
    name: String,
    region: String,
    mut data: Fields,
    mut compute: Fields,
    mut jobs: Fields,
    mut goal: Fields,
) -> Result<Workload, FieldError> {
    let workload = Workload {
        name,
        data: read_data(&mut data)?,
        compute: read_compute(&mut compute)?,
        jobs: Jobs {
            at_once: count(&mut jobs, "at_once", 1.0, 1.0)?,
            per_day: count(&mut jobs, "per_day", 1.0, 0.0)?,
        },
        goal: Goal {
            deadline: optional(&mut goal, "deadline", Field::seconds)?,
            waiting: optional(&mut goal, "waiting", Field::money_per_hour)?,
            shared: flag(&mut goal, "shared")?,
            durable: flag(&mut goal, "durable")?,
        },
        region,
    };
    for section in [data, compute, jobs, goal] {
        section.finish()?;
    }
    Ok(workload)
}

fn read_data(data: &mut Fields) -> Result<Data, FieldError> {
    let size = data.require("size")?;
    let bytes = check::size(&size)?;
    let files = count(data, "files", 1.0, 1.0)?;
    let passes = data.take("passes");
    let read = data.take("read");
    let read_bytes = read.as_ref().map_or(Ok(bytes), Field::bytes)?;
    if let Some(read) = &read {
        check::read(read, read_bytes, bytes, passes.is_some())?;
    }
    let request = data.take("request");
    let warm = data.take("warm");
    let warm_bytes = warm.as_ref().map_or(Ok(0.0), Field::bytes)?;
    if let Some(warm) = &warm {
        check::warm(warm, warm_bytes, read_bytes)?;
    }
    let words = [("sequential", Access::Sequential), ("random", Access::Random), ("mapped", Access::Mapped)];
    Ok(Data {
        bytes,
        files,
        read: read_bytes,
        passes: passes.as_ref().map_or(Ok(1.0), |field| field.count(1.0))?,
        request: request.as_ref().map_or(Ok(REQUEST), check::request)?,
        access: data.take("access").map_or(Ok(Access::Sequential), |field| field.one_of(&words))?,
        in_flight: optional(data, "in_flight", |field| field.count(1.0))?,
        warm: warm_bytes,
    })
}

fn read_compute(compute: &mut Fields) -> Result<Compute, FieldError> {
    let words = [("before", Loading::Before), ("beside", Loading::Beside), ("either", Loading::Either)];
    let place = compute.require("at")?;
    let cpu = compute.take("cpu");
    Ok(Compute {
        place: place_of(&place)?,
        cpu_seconds: cpu.as_ref().map_or(Ok(0.0), check::duration)?,
        threads: count(compute, "threads", 1.0, 1.0)?,
        program_memory: optional(compute, "program_memory", Field::bytes)?.unwrap_or(0.0),
        startup: compute.take("startup").as_ref().map_or(Ok(0.0), check::duration)?,
        loading: compute.take("loading").map_or(Ok(Loading::Either), |field| field.one_of(&words))?,
        client: compute
            .take("client")
            .map_or(Ok("firstbyte".to_owned()), |field| field.text().map(str::to_owned))?,
        spot: flag(compute, "spot")?,
        interrupted: compute.take("interrupted_percent").as_ref().map_or(Ok(0.0), check::part)?,
    })
}

/// `lambda:3008MB`, or the name of an instance type. Lambda writes MB and means 2^20 bytes.
fn place_of(field: &Field) -> Result<Place, FieldError> {
    let text = field.text()?;
    let Some(memory) = text.strip_prefix("lambda:") else {
        let name = text.strip_prefix("ec2:").unwrap_or(text);
        return Ok(Place::Machine(name.to_owned()));
    };
    let bytes = units::bytes(memory).map_err(|error| field.error(error.to_string()))?.0;
    let decimal = !memory.to_ascii_lowercase().contains("ib");
    let mib = if decimal { bytes / 1e6 } else { bytes / 1_048_576.0 };
    if !(128.0..=10_240.0).contains(&mib) {
        return Err(field.error("a function has 128 MB to 10,240 MB of memory"));
    }
    Ok(Place::Lambda(mib * 1_048_576.0))
}

fn count(fields: &mut Fields, name: &str, default: f64, least: f64) -> Result<f64, FieldError> {
    let Some(field) = fields.take(name) else { return Ok(default) };
    check::count(&field, least)
}

fn flag(fields: &mut Fields, name: &str) -> Result<bool, FieldError> {
    fields.take(name).map_or(Ok(false), |field| field.flag())
}

fn optional(
    fields: &mut Fields,
    name: &str,
    read: fn(&Field) -> Result<f64, FieldError>,
) -> Result<Option<f64>, FieldError> {
    let Some(field) = fields.take(name) else { return Ok(None) };
    read(&field).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[data]\nsize = \"5 GB\"\n[compute]\nat = \"lambda:3008MB\"\n";

    fn error(text: &str) -> String {
        of_text(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_stated_has_a_default() {
        let workload = of_text(SMALL).unwrap();
        assert_eq!(workload.data.read, 5e9);
        assert_eq!(workload.compute.place, Place::Lambda(3_008.0 * 1_048_576.0));
        assert_eq!(workload.compute.loading, Loading::Either);
        assert_eq!((workload.jobs.at_once, workload.goal.deadline), (1.0, None));
    }

    #[test]
    fn a_field_is_found_where_it_stands() {
        let at = |field: &str| position(SMALL, field).map(|at| at.to_string());
        assert_eq!(at("compute.at").as_deref(), Some("line 4: compute.at"));
        assert_eq!((at("region"), at("data.read")), (None, None));
    }

    #[test]
    fn options_make_the_same_workload_as_a_file() {
        let options = [("data", "5GB".to_owned()), ("at", "lambda:3008MB".to_owned())];
        let mut workload = of_options(&options).unwrap();
        workload.name = "workload".to_owned();
        assert_eq!(workload, of_text(SMALL).unwrap());
        let wrong = of_options(&[("data", "5".to_owned())]).unwrap_err().to_string();
        assert!(wrong.starts_with("--data: `5` has no unit"), "{wrong}");
    }

    #[test]
    fn each_wrong_value_is_named_with_line_and_field() {
        let cases = [
            ("read = \"6 GB\"", "line 3: data.read: 6.00 GB read of 5.00 GB"),
            ("read = \"6 GB\"\npasses = 2", "line 3: data.read: 6.00 GB in one pass"),
            ("warm = \"6 GB\"", "line 3: data.warm: 6.00 GB cached of 5.00 GB"),
            ("read = \"-1 GB\"", "line 3: data.read: `-1 GB` is negative"),
            ("read = \"1 lightyear\"", "line 3: data.read: `1 lightyear` is not a size"),
            ("passes = 0", "line 3: data.passes: 0 is less than 1"),
            ("files = \"many\"", "line 3: data.files: write a number"),
            ("files = 1e30", "line 3: data.files: 1000000000000000000000000000000 is absurd"),
            ("request = \"0 B\"", "line 3: data.request: a read of less than one byte"),
            ("access = \"backwards\"", "line 3: data.access: `backwards` is not one of sequential"),
            ("pases = 2", "line 3: data.pases: unknown field; did you mean `passes`?"),
        ];
        for (line, expected) in cases {
            let found = error(&SMALL.replacen("[compute]", &format!("{line}\n[compute]"), 1));
            assert!(found.starts_with(expected), "{found}");
        }
        assert!(error("[compute]\nat = \"m5.large\"").contains("`size` is missing"));
        assert!(error("[data]\nsize = \"900 PB\"").starts_with("line 2: data.size: "));
        let place = error("[data]\nsize = \"5 GB\"\n[compute]\nat = \"lambda:3 GB\"\ncpu = \"9999 d\"");
        assert!(place.starts_with("line 5: compute.cpu: "), "{place}");
        assert!(error("[data]\nsize = \"5 GB\"\n[compute]\nat = \"lambda:99 MB\"").contains("128 MB to"));
        let part = error(&format!("{SMALL}interrupted_percent = 100"));
        assert!(part.starts_with("line 5: compute.interrupted_percent: "), "{part}");
    }
}
