//! Determines the shard of this worker (`--shard`), which the user or the scheduler of an array job
//! gives.

use std::str::FromStr;

use firstbyte_transfer::Shard;

use super::{MOST_SHARDS, Manifest};
use crate::environment::{ARRAY_VARIABLES, VariableLookup, array_task};
use crate::error::{Error, Result};

/// The way in which the shard is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// Given as `I/N`.
    Given(Shard),
    /// Given as `auto` or `auto/N`: the environment of an array job chooses the shard.
    Auto {
        /// The number of shards, if it was given.
        count: Option<u32>,
    },
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong =
            || "write I/N with I from 0 to N-1, such as 0/4, or auto or auto/N in an array job".to_owned();
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= MOST_SHARDS);
        let (index, count) = text.split_once('/').map_or((text, None), |(index, count)| (index, Some(count)));
        let count =
            count.map(|count| number(count).filter(|count| *count > 0).ok_or_else(wrong)).transpose()?;
        match (index, count) {
            ("auto", count) => Ok(Self::Auto { count }),
            (index, Some(count)) => match number(index) {
                Some(index) if index < count => Ok(Self::Given(Shard { index, count })),
                _ => Err(wrong()),
            },
            (_, None) => Err(wrong()),
        }
    }
}

impl ShardChoice {
    /// Determines the shard if names are divided without a manifest.
    ///
    /// # Errors
    /// `auto` is used outside an array job, or the number of tasks is not known.
    pub fn resolve(self, lookup: VariableLookup<'_>) -> Result<Shard> {
        self.resolve_with_plan(None, lookup)
    }

    /// Determines the shard of a manifest. The option, the array job and the manifest must have the
    /// same number of shards, because otherwise workers would leave objects out or copy them twice.
    ///
    /// # Errors
    /// The errors of [`resolve`](Self::resolve), and a number of shards that is not the manifest's.
    pub fn of_manifest(self, manifest: &Manifest, lookup: VariableLookup<'_>) -> Result<Shard> {
        self.resolve_with_plan(Some(manifest.count()), lookup)
    }

    fn resolve_with_plan(self, planned: Option<u32>, lookup: VariableLookup<'_>) -> Result<Shard> {
        let fails = |why: String| Error::Option { name: "shard".into(), why };
        let (index, counts) = match self {
            Self::Given(shard) => (shard.index, [(Some(shard.count), "--shard"), (None, "")]),
            Self::Auto { count } => {
                let task = array_task(lookup)?.ok_or_else(|| {
                    fails(format!(
                        "auto, but this is no task of an array job: none of {ARRAY_VARIABLES} is set"
                    ))
                })?;
                (task.index, [(count, "--shard"), (task.count, "the array job")])
            }
        };
        let mut known = planned.map(|count| (count, "the manifest"));
        for (count, says) in counts {
            match (known, count) {
                (Some((expected, of)), Some(count)) if expected != count => {
                    return Err(fails(format!(
                        "{says} has {count} shards and {of} has {expected}; name the shard as I/{expected}, or plan \
                         again with --shards {count}"
                    )));
                }
                (None, Some(count)) => known = Some((count, says)),
                _ => {}
            }
        }
        match known {
            Some((count, _)) if index < count => Ok(Shard { index, count }),
            Some((count, of)) => Err(fails(format!(
                "{index} of {count} is out of range: {of} has the shards 0 to {}",
                count - 1
            ))),
            None => Err(fails("auto, but the number of tasks is not known; write auto/N".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(
        text: &str,
        planned: Option<u32>,
        variables: &[(&str, &str)],
    ) -> std::result::Result<(u32, u32), String> {
        let lookup =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let choice = text.parse::<ShardChoice>()?;
        let shard = choice.resolve_with_plan(planned, &lookup).map_err(|error| error.to_string())?;
        Ok((shard.index, shard.count))
    }

    #[test]
    fn a_shard_is_given_or_taken_from_the_array_job() {
        let slurm =
            [("SLURM_ARRAY_TASK_ID", "6"), ("SLURM_ARRAY_TASK_MIN", "5"), ("SLURM_ARRAY_TASK_COUNT", "4")];
        let indexed = [("JOB_COMPLETION_INDEX", "2")];
        assert_eq!(resolved("3/4", None, &[]), Ok((3, 4)));
        assert_eq!(resolved("3/4", Some(4), &slurm), Ok((3, 4)));
        assert_eq!(resolved("auto", None, &slurm), Ok((1, 4)));
        assert_eq!(resolved("auto", Some(4), &indexed), Ok((2, 4)));
        assert_eq!(resolved("auto/4", None, &indexed), Ok((2, 4)));
    }

    #[test]
    fn what_does_not_fit_says_what_and_why() {
        let indexed = [("JOB_COMPLETION_INDEX", "4")];
        let slurm = [("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_COUNT", "2")];
        for (text, planned, variables, part) in [
            ("auto", Some(4), &[][..], "SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX is set"),
            ("auto", None, &indexed[..], "write auto/N"),
            ("auto", Some(4), &indexed[..], "out of range"),
            ("auto", Some(4), &slurm[..], "the array job has 2 shards and the manifest has 4"),
            ("auto/3", Some(4), &indexed[..], "--shard has 3 shards"),
            ("0/3", Some(4), &[][..], "plan again with --shards 3"),
            ("4/4", None, &[][..], "write I/N"),
            ("0/0", None, &[][..], "write I/N"),
            ("x", None, &[][..], "write I/N"),
        ] {
            let error = resolved(text, planned, variables).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
