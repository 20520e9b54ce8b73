//! Built-in plans. Most repeat published measurements; the suite `advise` compares the models of
//! `firstbyte advise` with measurements on this machine.
//!
//! A suite is a plan (`suites/NAME.toml`), the programs of its contenders, and a table that sets
//! published figures beside measured ones. Without a target, its cases measure local stand-ins.
//! With a target, the cases that need a target replace them. Called by `bench run --suite`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::plan::Plan;

/// A suite.
#[derive(Debug)]
pub struct Suite {
    /// Name on the command line.
    pub name: &'static str,
    /// Text of the plan, TOML.
    text: &'static str,
    /// Text of the plan for the same measurements in functions.
    functions: Option<&'static str>,
    /// Programs of the contenders: name below `{plan}`, and content.
    programs: &'static [(&'static str, &'static str)],
}

/// Includes files of `suites/` and of `deploy/`, each with its name below that directory.
macro_rules! programs {
    ($($name:literal),* $(; $($deployed:literal),*)?) => {
        &[
            $(($name, include_str!(concat!("suites/", $name))),)*
            $($(($deployed, include_str!(concat!("../../../deploy/", $deployed))),)*)?
        ]
    };
}

/// All suites, by name.
pub static SUITES: [Suite; 6] = [
    Suite {
        name: "s1",
        text: include_str!("suites/s1.toml"),
        functions: Some(include_str!("suites/s1_functions.toml")),
        programs: &[],
    },
    Suite {
        name: "s2",
        text: include_str!("suites/s2.toml"),
        functions: None,
        programs: programs![
            "netty.sh",
            "netty/pom.xml",
            "netty/src/main/java/bench/Request.java",
            "netty/src/main/java/bench/Server.java",
            "netty/src/main/java/bench/Client.java",
            "upload_page.py"
        ],
    },
    Suite {
        name: "s3",
        text: include_str!("suites/s3.toml"),
        functions: None,
        programs: programs!["s3/copy.sh", "s3/half.sh", "s3/hits.sh", "s3/mounts.sh"],
    },
    Suite {
        name: "s4",
        text: include_str!("suites/s4.toml"),
        functions: None,
        programs: programs!["churn.py"],
    },
    Suite {
        name: "s5",
        text: include_str!("suites/s5.toml"),
        functions: Some(include_str!("suites/s5_functions.toml")),
        programs: programs![
            "s5_boto3.py",
            "s5_copy.py";
            "functions/answer.py",
            "functions/boto3_s3.py",
            "functions/mount.py",
            "functions/with_firstbyte.py"
        ],
    },
    Suite {
        name: "advise",
        text: include_str!("suites/advise.toml"),
        functions: None,
        programs: programs![
            "advise/files-20mb.toml",
            "advise/files-4ms.toml",
            "advise/job.py",
            "advise/machines.toml",
            "advise/object-20mb.toml",
            "advise/object-burst.toml",
            "advise/object-connection.toml",
            "advise/object-far.toml"
        ],
    },
];

impl Suite {
    /// Returns the suite of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    /// Makes the suite's plan. A remote target becomes the variable `target`, a local one
    /// `directory`. A second target of either kind is refused.
    ///
    /// # Errors
    /// A variable is unknown, or the suite has no case for these targets.
    pub fn plan(&self, targets: &[String], vars: &BTreeMap<String, String>) -> Result<Plan> {
        let mut vars = vars.clone();
        for target in targets {
            let name = if target.contains("://") { "target" } else { "directory" };
            if vars.insert(name.to_owned(), target.clone()).is_some() {
                return Err(self.wrong(format!("a second {name}, {target}: it takes one of each kind")));
            }
        }
        let mut plan = Plan::parse(self.name, self.text, &vars)?;
        plan.choose_cases();
        if plan.cases.is_empty() {
            return Err(self.wrong(format!("no case for {}", targets.join(" and "))));
        }
        Ok(plan)
    }

    /// Makes the plan of the suite's measurements in functions, with these variables.
    ///
    /// # Errors
    /// The suite has no such plan, or a variable is unknown.
    pub fn plan_in_functions(&self, vars: &BTreeMap<String, String>) -> Result<Plan> {
        let Some(text) = self.functions else {
            let known = SUITES.iter().filter(|suite| suite.functions.is_some());
            let known = known.map(|suite| suite.name).collect::<Vec<_>>().join(" and ");
            return Err(self.wrong(format!("it does not run in functions; {known} do")));
        };
        Plan::parse(&format!("{} in functions", self.name), text, vars)
    }

    /// Writes the suite's programs into `directory`.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn unpack(&self, directory: &Path) -> Result<()> {
        for (name, content) in self.programs {
            let path = directory.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(Error::file(parent))?;
            }
            std::fs::write(&path, content).map_err(Error::file(&path))?;
        }
        Ok(())
    }

    fn wrong(&self, what: String) -> Error {
        Error::Plan { plan: format!("suite {}", self.name), what }
    }
}

#[cfg(test)]
mod tests {
    use crate::result::{Basis, Results, Run};
    use crate::statistics;

    use super::*;

    #[test]
    fn every_suite_is_a_plan_with_a_table() {
        for suite in &SUITES {
            let plan = suite.plan(&[], &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"));
            assert!(!plan.tables.is_empty(), "{}", suite.name);
        }
    }

    #[test]
    fn the_published_services_are_modelled_beside_their_published_figures() {
        for (name, cells) in [("s1", 7 * 3), ("s3", 4 * 4), ("s5", 5 * 3)] {
            let plan = Suite::named(name).unwrap().plan(&[], &BTreeMap::new()).unwrap();
            let cases = plan.cases.iter().filter(|case| case.name.starts_with("cloud-"));
            let mut results = Results::default();
            for (case, contender) in cases.flat_map(|case| case.contenders.iter().map(move |one| (case, one)))
            {
                let modelled = contender.modelled.as_ref().unwrap();
                let run = modelled.run(&plan.words_of(case), "2026-11-24T00:00:00Z").unwrap();
                let names = Run { case: case.name.clone(), contender: contender.name.clone(), ..run };
                results.runs.push(names);
            }
            let found: Vec<_> =
                plan.tables.iter().flat_map(|table| statistics::cells(table, &results)).collect();
            let shown = found.iter().flatten().filter(|cell| cell.value.is_some());
            assert!(shown.clone().all(|cell| cell.basis == Basis::Modelled && cell.limit.is_some()));
            assert_eq!(shown.clone().count(), cells, "{name}");
            assert!(shown.filter(|cell| !cell.published.is_empty()).count() > 0, "{name}");
        }
    }

    #[test]
    fn suites_in_functions_are_plans_of_calls() {
        for suite in SUITES.iter().filter(|suite| suite.functions.is_some()) {
            let plan = suite.plan_in_functions(&BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"));
            let mut contenders = plan.cases.iter().flat_map(|case| &case.contenders);
            assert!(contenders.all(|contender| contender.invoke.is_some()), "{}", suite.name);
        }
        let error = Suite::named("s2").unwrap().plan_in_functions(&BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("s1 and s5 do"), "{error}");
    }

    #[test]
    fn two_targets_of_a_kind_are_refused() {
        for suite in &SUITES {
            let targets = ["s3://a/b".to_owned(), "s3://a/c".to_owned()];
            assert!(suite.plan(&targets, &BTreeMap::new()).is_err(), "{}", suite.name);
        }
    }
}
