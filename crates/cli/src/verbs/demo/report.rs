//! Writes the HTML report of the demo: one self-contained page with the figures as bars and as
//! text.

use firstbyte::size::human;
use quick_xml::escape::escape;

use super::Figures;
use super::text::{grouped, seconds};

/// Width of the bars' field, in the picture's own units.
const FIELD: f64 = 420.0;
/// Height of a row of bars.
const ROW: f64 = 34.0;

/// One bar: its name, its seconds, a remark, and whether it is this program's.
struct Bar {
    name: String,
    time: f64,
    note: String,
    own: bool,
}

/// The whole page.
pub(crate) fn page(figures: &Figures) -> String {
    let ready = figures.ready.rows().into_iter().map(|(name, time, note)| {
        let own = figures.ready.peer.is_none_or(|(peer, _)| !name.starts_with(peer));
        Bar { name: name.trim().to_owned(), time, note, own }
    });
    let small = &figures.small;
    let peer =
        small.peer.map(|(name, time)| Bar { name: name.to_owned(), time, note: String::new(), own: false });
    let own = Bar { name: "firstbyte cp -r".to_owned(), time: small.cp, note: String::new(), own: true };
    let survive = &figures.survive;
    let mut page = String::from(HEAD);
    page.push_str(&format!(
        "<p class=lead>First byte of a {} object after <b>{}</b>; all of it after <b>{}</b>.</p>",
        human(figures.size),
        seconds(figures.ready.lazy_first_byte),
        seconds(figures.ready.cp),
    ));
    let subtitle = format!("{} object, cold, median of {} runs", human(figures.size), figures.runs);
    section(&mut page, "Ready", &subtitle, &bars(&ready.collect::<Vec<_>>()));
    let subtitle = format!("{} files of 10-100 KB, {} in all", grouped(small.files), human(small.bytes));
    section(&mut page, "Small", &subtitle, &bars(&peer.into_iter().chain([own]).collect::<Vec<_>>()));
    let list = &figures.list;
    let bar = |name: &str, time, own| Bar { name: name.to_owned(), time, note: String::new(), own };
    let rows = list.peer.map(|time| bar("ls -f", time, false)).into_iter();
    let subtitle = format!("{} names in one directory, warm, into a pipe", grouped(list.names));
    section(
        &mut page,
        "List",
        &subtitle,
        &bars(&rows.chain([bar("firstbyte ls", list.ls, true)]).collect::<Vec<_>>()),
    );
    let cards = [
        (format!("{} %", survive.killed_at), "done when killed"),
        (human(survive.resumed_bytes), "not fetched again"),
        (human(survive.reread_bytes), "read again"),
        (human(survive.peak_memory_bytes), "peak memory"),
    ];
    let cards: String = cards
        .map(|(value, what)| format!("<div class=card><b>{}</b>{what}</div>", escape(value.as_str())))
        .concat();
    let cards = format!("<div class=cards>{cards}</div>");
    section(
        &mut page,
        "Survive",
        "kill -9 in the middle of a copy, the same command again: content identical",
        &cards,
    );
    page.push_str(&format!(
        "<footer>Link: {}. Files on {}. {}: {}. Measured in {:.0} s by firstbyte {}; every figure is of this one run.</footer></main>\n",
        escape(&figures.link),
        escape(&figures.place),
        figures.cache_state,
        escape(&figures.evidence),
        figures.seconds,
        env!("CARGO_PKG_VERSION"),
    ));
    page
}

fn section(page: &mut String, title: &str, subtitle: &str, content: &str) {
    page.push_str(&format!("<section><h2>{title}</h2><p>{}</p>{content}</section>\n", escape(subtitle)));
}

fn bars(bars: &[Bar]) -> String {
    let slowest = bars.iter().map(|bar| bar.time).fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW * bars.len() as f64;
    let mut svg = format!("<svg viewBox='0 0 760 {height}' role=img>");
    for (row, bar) in bars.iter().enumerate() {
        let (top, width) = (row as f64 * ROW, (bar.time / slowest * FIELD).max(2.0));
        let class = if bar.own { "own" } else { "peer" };
        svg.push_str(&format!(
            "<text x=150 y={y} class=name>{name}</text><rect x=162 y={bar_top} width={width:.1} height=20 rx=3 class={class} />\
             <text x={after:.1} y={y}>{time}<tspan class=note dx=8>{note}</tspan></text>",
            y = top + 22.0,
            bar_top = top + 7.0,
            after = 162.0 + width + 8.0,
            name = escape(&bar.name),
            time = seconds(bar.time),
            note = escape(&bar.note),
        ));
    }
    svg.push_str("</svg>");
    svg
}

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>
<title>firstbyte demo</title><style>
:root{color-scheme:light dark;--ink:#1d2430;--soft:#667085;--paper:#f6f7f9;--card:#fff;--own:#2563eb;--peer:#a3acba;--line:#e4e7ec}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--soft:#98a2b3;--paper:#14171d;--card:#1c2029;--own:#6c9cff;--peer:#596273;--line:#2b303b}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:820px;margin:0 auto;padding:32px 20px}h1{margin:0;font-size:28px}h2{margin:0;font-size:18px}
.lead{margin:4px 0 24px;color:var(--soft);font-size:18px}.lead b{color:var(--own)}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px;margin:0 0 16px}
section p{margin:0 0 12px;color:var(--soft);font-size:14px}svg{display:block;width:100%;font-size:14px;fill:var(--ink)}
.name{text-anchor:end}.note{fill:var(--soft)}.own{fill:var(--own)}.peer{fill:var(--peer)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.card{border:1px solid var(--line);border-radius:8px;padding:12px;color:var(--soft);font-size:14px}
.card b{display:block;color:var(--ink);font-size:22px}footer{color:var(--soft);font-size:13px}
</style><main><h1>firstbyte</h1>";
