//! The worked example of docs/reference/advise.md: computes each figure of its tables from their
//! arithmetic.

use std::collections::BTreeMap;

const DOCS: &str = include_str!("../../../docs/reference/advise.md");

/// Arithmetic of numbers, names, `+ - * /` and parentheses.
struct Arithmetic<'a> {
    words: Vec<&'a str>,
    names: &'a BTreeMap<String, f64>,
}

impl<'a> Arithmetic<'a> {
    fn value(text: &'a str, names: &'a BTreeMap<String, f64>) -> f64 {
        let spaced = text.replace('(', "( ").replace(')', " )");
        let mut words: Vec<&str> = spaced.split_whitespace().collect();
        words.reverse();
        let mut all = Arithmetic { words, names };
        let value = all.sum();
        assert!(all.words.is_empty(), "{text}: rest {:?}", all.words);
        value
    }

    fn sum(&mut self) -> f64 {
        let mut value = self.product();
        while let Some(sign) = self.words.pop_if(|word| ["+", "-"].contains(word)) {
            let next = self.product();
            value += if sign == "+" { next } else { -next };
        }
        value
    }

    fn product(&mut self) -> f64 {
        let mut value = self.atom();
        while let Some(sign) = self.words.pop_if(|word| ["*", "/"].contains(word)) {
            let next = self.atom();
            value = if sign == "*" { value * next } else { value / next };
        }
        value
    }

    fn atom(&mut self) -> f64 {
        let word = self.words.pop().expect("a number or a name");
        if word == "(" {
            let value = self.sum();
            assert_eq!(self.words.pop(), Some(")"));
            return value;
        }
        word.parse()
            .unwrap_or_else(|_| *self.names.get(word).unwrap_or_else(|| panic!("unknown name {word}")))
    }
}

/// Rows of the tables below a heading, until the next one of its level.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let part = DOCS.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let part = part.split("\n### ").next().unwrap_or(part);
    let lines = part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

fn inputs() -> BTreeMap<String, f64> {
    let mut names = BTreeMap::new();
    for row in rows("## A worked example").iter().skip(1) {
        let keys = row[0].split(", ").map(|key| key.trim_matches('`').to_owned());
        for (key, text) in keys.zip(row[1].split(", ")) {
            let value = Arithmetic::value(text, &names);
            names.insert(key, value);
        }
    }
    names
}

/// Digits after the point.
fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, digits)| digits.len())
}

#[test]
fn each_figure_is_computed_and_the_report_is_reproduced() {
    let (names, mut computed) = (inputs(), 0);
    for heading in ["### Reproduced", "### Pointed out", "### The daily job alone"] {
        for row in rows(heading).iter().filter(|row| row[3] != "arithmetic") {
            let value = Arithmetic::value(&row[3], &names);
            let digits = decimals(&row[2]);
            assert_eq!(format!("{value:.digits$}"), row[2], "{row:?}");
            computed += 1;
            if heading == "### Reproduced" {
                let [report, value] = [&row[1], &row[2]].map(|text| text.parse::<f64>().unwrap());
                let last = 10f64.powi(-(decimals(&row[1]) as i32));
                assert!((report - value).abs() <= last * 1.001, "{row:?}");
            }
        }
    }
    assert!(computed > 70, "{computed}");
}
