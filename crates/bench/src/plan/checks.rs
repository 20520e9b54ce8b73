//! Checks that the parts of a plan fit together, selects the cases to run, and fills variables into
//! the plan's texts. Called by [`Plan::parse`] after the TOML is decoded, and by suites.

use crate::table::Table;

use super::{Case, Plan, unique};
use crate::words::Words;

impl Plan {
    /// Fills the variables in texts for readers. Other braces stay.
    pub(super) fn fill_texts(&mut self, vars: &Words) {
        let of_cases: Vec<Words> = self.cases.iter().map(|case| self.words_of(case)).collect();
        let cases = self.cases.iter_mut().zip(&of_cases);
        let cases = cases.flat_map(|(case, words)| {
            case.notes.iter_mut().chain([&mut case.title]).map(move |text| (text, words))
        });
        let tables = self.tables.iter_mut().flat_map(titles).map(|text| (text, vars));
        for (text, words) in cases.chain(tables) {
            if let Ok(filled) = words.fill(text) {
                *text = filled;
            }
        }
    }

    /// Returns the placeholders of a case that are known before it is prepared.
    pub(crate) fn words_of(&self, case: &Case) -> Words {
        let mut words = Words::default();
        for (name, value) in self.vars.iter().chain(&case.vars) {
            words.set(name, value);
        }
        words
    }

    /// Checks that there are cases, names are unique, sizes parse, and goals name contenders.
    pub(crate) fn validate(&self) -> std::result::Result<(), String> {
        if self.cases.is_empty() {
            return Err("it has no cases: there is nothing to measure".into());
        }
        unique("case", self.cases.iter().map(|case| &case.name))?;
        let services = self.services.iter().map(|service| &service.name);
        let shared: Vec<&String> = self.data.iter().map(|data| &data.name).chain(services).collect();
        for case in &self.cases {
            let named = |what: String| format!("case {}: {what}", case.name);
            if let Some(unknown) = case.uses.iter().flatten().find(|name| !shared.contains(name)) {
                return Err(named(format!("uses {unknown:?}, which is no data or service of the plan")));
            }
            if let Some(unknown) = case.needs.iter().find(|name| !self.vars.contains_key(*name)) {
                return Err(named(format!("needs {unknown:?}, which is no variable of the plan")));
            }
            case.validate().map_err(named)?;
        }
        for table in &self.tables {
            self.validate_table(table).map_err(|what| format!("table {:?}: {what}", table.title))?;
        }
        Ok(())
    }

    /// Checks that the plan has the cases and contenders that a table names. A contender may be
    /// missing in some cases: such a cell stays empty.
    fn validate_table(&self, table: &Table) -> std::result::Result<(), String> {
        let is_contender = |name: &str| self.cases.iter().any(|case| case.has(name));
        for (case, contender) in table.subjects() {
            if !case.is_empty() && !self.cases.iter().any(|known| known.name == case) {
                return Err(format!("no case {case:?}"));
            }
            if !contender.is_empty() && !is_contender(&contender) {
                return Err(format!("no contender {contender:?}"));
            }
        }
        Ok(())
    }

    /// Selects cases by the variables that they need. If a needed variable is given, keeps the
    /// cases with needs whose variables are all given. If none is given, keeps the cases without
    /// needs.
    pub fn choose_cases(&mut self) {
        let vars = &self.vars;
        let given = |name: &String| vars.get(name).is_some_and(|value| !value.is_empty());
        let any_given = self.cases.iter().flat_map(|case| &case.needs).any(given);
        self.cases.retain(|case| case.needs.is_empty() != any_given && case.needs.iter().all(given));
    }
}

/// Returns the texts of a table for readers, without its figures.
fn titles(table: &mut Table) -> Vec<&mut String> {
    let Table { title, notes, all, columns, rows } = table;
    let axes = columns.iter_mut().chain(rows.iter_mut()).map(|axis| &mut axis.title);
    axes.chain(notes).chain([title, &mut all.title]).collect()
}
