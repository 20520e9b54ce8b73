//! The templates of the pages and of Markdown, with the filters that format figures in them.
//!
//! The templates are part of the program, so a template that cannot be filled is a bug. Called by
//! the forms of the report.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};

use super::words::{explain_stand_in, seconds};

const TEMPLATES: [(&str, &str); 6] = [
    ("advice.html", include_str!("advice.html")),
    ("case.html", include_str!("case.html")),
    ("page.html", include_str!("page.html")),
    ("parts.html", include_str!("parts.html")),
    ("results.html", include_str!("results.html")),
    ("results.md", include_str!("results.md")),
];

/// Fills a template. Texts in pages are escaped.
pub(super) fn render_template(name: &str, values: &serde_json::Value) -> String {
    let text = environment().and_then(|all| all.get_template(name)?.render(Value::from(Serde(values))));
    text.expect("the templates fit their values")
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut all = Environment::new();
    // With these options, a line that has only a tag leaves no empty line.
    all.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    all.set_undefined_behavior(UndefinedBehavior::Strict);
    all.add_filter("explain", |stand_in: &str| explain_stand_in(stand_in));
    all.add_filter("fixed", |value: f64, digits: usize| format!("{value:.digits$}"));
    all.add_filter("md", |text: &str| escaped_markdown(text));
    all.add_filter("seconds", seconds);
    let css = concat!(include_str!("uplot/uPlot.min.css"), "\n", include_str!("page.css"));
    let parts = [
        ("css", css),
        ("charts", include_str!("uplot/uPlot.iife.min.js")),
        ("script", include_str!("page.js")),
    ];
    for (name, text) in parts {
        all.add_global(name, Value::from_safe_string(text.to_owned()));
    }
    for (name, text) in TEMPLATES {
        all.add_template(name, text)?;
    }
    Ok(all)
}

/// Escapes the special characters of Markdown.
fn escaped_markdown(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '<' | '*' | '_' | '`' | '[' | '\\' => out.extend(['\\', c]),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
