//! The worked example: checks a report on BLAST over EFS and FSx for Lustre against its own inputs.
//!
//! `docs/advise.md` shows its text. A figure that follows from the report's inputs is reproduced. A
//! statement that contradicts other figures is pointed out, with the arithmetic. Rates are those of
//! the report, never current ones. Called by `firstbyte advise example`.

mod alone;
mod costs;
mod figures;
mod inputs;
mod pointed_out;
mod reproduced;

use std::fmt::Write as _;

use serde::Serialize;

pub use alone::Alone;
pub use pointed_out::Point;
pub use reproduced::Figure;

use inputs::Inputs;

/// Columns of the printed text.
const WIDTH: usize = 100;

/// Everything that the example shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// Figures that follow from the inputs.
    pub reproduced: Vec<Figure>,
    /// The costs of EC2 again, at the list price of r6i.24xlarge in us-east-1.
    pub at_us_price: Vec<Figure>,
    /// Statements that do not hold together.
    pub pointed_out: Vec<Point>,
    /// The daily job alone.
    pub alone: Alone,
    /// Possible explanations of (b), unproven.
    pub what_if: Vec<String>,
    #[serde(skip)]
    lines: Vec<String>,
    #[serde(skip)]
    head: String,
}

impl Example {
    /// Computes it.
    #[must_use]
    pub fn compute() -> Self {
        let inputs = Inputs::load();
        let alone = Alone::of(&inputs);
        Self {
            reproduced: reproduced::all(&inputs),
            at_us_price: reproduced::at_us_price(&inputs),
            pointed_out: pointed_out::all(&inputs),
            lines: alone.lines(),
            alone,
            what_if: alone::what_if(&inputs),
            head: format!(
                "core_nt, {:.1} GiB in {} files, searched by blastn on EFS and on FSx for Lustre Scratch 2.\n\
                 Rates and times are the report's, in US dollars; none of the rates is a current one.",
                inputs.database.gib(),
                inputs.database.files
            ),
        }
    }

    /// As text for a terminal, at most 100 columns wide.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\nREPRODUCED, within one unit of the last digit\n", self.head);
        let _ = writeln!(text, "  {:42} {:>9} {:>9}  from", "", "report", "computed");
        self.reproduced.iter().for_each(|figure| push_figure(&mut text, figure));
        text.push_str("\nREPRODUCED AS WELL, EC2 at the list price of r6i.24xlarge in us-east-1\n");
        self.at_us_price.iter().for_each(|figure| push_figure(&mut text, figure));
        text.push_str("\nPOINTED OUT\n");
        for point in &self.pointed_out {
            push_wrapped(&mut text, &format!("({}) ", point.mark), &point.what);
            push_wrapped(&mut text, "    ", &point.how);
        }
        text.push_str("\nTHE DAILY JOB ALONE\n");
        self.lines.iter().for_each(|line| push_wrapped(&mut text, "", line));
        text.push_str("\nWHAT MIGHT EXPLAIN (b), UNPROVEN\n");
        self.what_if.iter().for_each(|line| push_wrapped(&mut text, "", line));
        text
    }
}

fn push_figure(text: &mut String, figure: &Figure) {
    let Figure { what, report, computed, digits, how } = figure;
    let value = |value: &f64| figures::grouped(*value, *digits);
    let mark = if figure.fits() { "" } else { "  DIFFERS" };
    let _ = writeln!(text, "  {what:42} {:>9} {:>9}  {how}{mark}", value(report), value(computed));
}

/// Adds a paragraph: indented by two, its first line after `mark` and the others as deep as that.
fn push_wrapped(text: &mut String, mark: &str, paragraph: &str) {
    let indent = " ".repeat(2 + mark.len());
    let mut line = format!("  {mark}");
    let mut empty = true;
    for word in paragraph.split_whitespace() {
        if !empty && line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests;
