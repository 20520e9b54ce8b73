// Draws the charts of the report and the table of raw runs from the JSON in the page.
"use strict";
(() => {
  const cases = JSON.parse(document.getElementById("data").textContent).cases;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (index) => css(`--c${index % 8}`);
  const number = (x) => {
    const size = Math.abs(x);
    return size >= 100 || size === 0 ? x.toFixed(0) : size >= 10 ? x.toFixed(1) : size >= 1 ? x.toFixed(2) : x.toPrecision(2);
  };
  const scaled = (steps) => (x) => {
    if (x === null || x === undefined) return "";
    const [size, unit] = steps.find(([size]) => Math.abs(x) >= size * 0.9995) ?? steps.at(-1);
    return x === 0 ? `0 ${steps.find(([size]) => size === 1)[1]}` : `${number(x / size)} ${unit}`;
  };
  const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const seconds = scaled([[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
  const binary = scaled([[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
  const bytes = scaled([[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  const dollars = scaled([[1e6, "M$"], [1e3, "k$"], [1, "$"]]), counts = scaled([[1e6, "M"], [1e3, "k"], [1, ""]]);
  const short = (text) => text.replace(/\.0+ /, " ").replace(/(\.\d*[1-9])0+ /, "$1 ");

  // Each tick has its own unit, and no zeros at its end.
  const axis = (label, format, extra = {}) => ({
    stroke: css("--soft"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", label, labelSize: 20,
    grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false },
    values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(format(tick)))), ...extra,
  });
  const options = (figure, axes, series, scales) => ({
    width: Math.max(240, figure.clientWidth), height: figure.clientWidth < 500 ? 260 : 300,
    legend: { live: false, markers: { fill: (plot, index) => plot.series[index].stroke(plot, index) } }, cursor: { y: false, points: { size: 7 } }, axes, series, scales, padding: [10, 22, 0, 0],
  });
  const range = (_, low, high) => [0, high > 0 ? high * 1.08 : 1];

  const runsChart = (figure, of) => {
    const { contender, seconds: times, state } = of.runs;
    const xs = times.map((_, index) => index + 1);
    const many = times.length > 400;
    const columns = [], series = [{}];
    of.contenders.forEach((name, index) => {
      const own = (wanted) => times.map((time, at) => (contender[at] === index && (state[at] === -1) === wanted ? time : null));
      const points = { show: true, size: many ? 3 : 7, stroke: color(index) };
      columns.push(own(true));
      series.push({ label: name, stroke: color(index), paths: () => null, points: { ...points, fill: color(index) } });
      const out = own(false);
      if (out.some((time) => time !== null)) {
        columns.push(out);
        series.push({ label: `${name}, kept out`, class: "hidden", stroke: color(index), paths: () => null, points: { ...points, width: 1.5, fill: css("--card") } });
      }
    });
    const axes = [axis("run", String, { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] }), axis(null, seconds, { size: 64 })];
    return [options(figure, axes, series, { x: { time: false, range: [0, times.length + 1] }, y: { range } }), [xs, ...columns]];
  };

  const joined = (lists) => {
    const xs = [...new Set(lists.flat().map((point) => point[0]))].sort((a, b) => a - b);
    return [xs, lists.map((list) => { const at = new Map(list.map((point) => [point[0], point])); return xs.map((x) => at.get(x)); })];
  };

  const throughputChart = (figure, of) => {
    const [xs, columns] = joined(of.throughput.map((line) => line.points));
    const series = of.throughput.map((line) => ({
      label: of.contenders[line.contender], stroke: color(line.contender), width: 2, spanGaps: true, points: { show: false },
    }));
    const axes = [axis("time", seconds), axis(null, (x) => `${bytes(x)}/s`, { size: 84 })];
    return [options(figure, axes, [{}, ...series], { x: { time: false }, y: { range } }), [xs, ...columns.map((list) => list.map((point) => point?.[1]))]];
  };

  // Ticks at powers of ten, every second one where there is little room.
  const decades = (plot, _, low, high) => {
    const step = plot.width < 500 ? 2 : 1, first = Math.ceil(Math.log10(low)), ticks = [];
    for (let power = first; 10 ** power <= high * 1.001; power += step) ticks.push(10 ** power);
    return ticks;
  };

  // Draws on the curves of an advice: a dashed vertical line at each mark, a dashed horizontal line
  // at the deadline, the user's own point, and at the end of each curve its name, if there is room.
  const annotate = (plot, chart) => {
    const { ctx, bbox, valToPos } = plot, unit = devicePixelRatio;
    const line = (x, y, toX, toY, stroke) => {
      ctx.strokeStyle = stroke;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(toX, toY);
      ctx.stroke();
    };
    const inside = (x, y) => x >= bbox.left && x <= bbox.left + bbox.width && y >= bbox.top && y <= bbox.top + bbox.height;
    ctx.save();
    ctx.font = `${11 * unit}px system-ui, sans-serif`;
    ctx.setLineDash([4 * unit, 4 * unit]);
    chart.marks.forEach((mark) => {
      const x = Math.round(valToPos(mark, "x", true));
      line(x, bbox.top, x, bbox.top + bbox.height, css("--soft"));
    });
    const y = chart.deadline === null ? NaN : valToPos(chart.deadline, "y", true);
    if (inside(bbox.left, y)) {
      line(bbox.left, y, bbox.left + bbox.width, y, css("--text"));
      ctx.fillStyle = css("--text");
      ctx.textAlign = "left";
      ctx.fillText("deadline", bbox.left + 4 * unit, y - 4 * unit);
    }
    ctx.setLineDash([]);
    const used = [];
    chart.series.forEach((of, index) => {
      const [x, value] = of.points.at(-1), at = valToPos(value, "y", true);
      if (!inside(valToPos(x, "x", true) - 1, at) || used.some((other) => Math.abs(other - at) < 12 * unit)) return;
      used.push(at);
      ctx.fillStyle = color(index);
      ctx.textAlign = "right";
      ctx.fillText(of.name, bbox.left + bbox.width - 2 * unit, at - 5 * unit);
    });
    const [x, own] = [valToPos(chart.here, "x", true), chart.here_measure === null ? NaN : valToPos(chart.here_measure, "y", true)];
    if (inside(x, own)) {
      ctx.fillStyle = css("--text");
      ctx.beginPath();
      ctx.arc(x, own, 5 * unit, 0, 2 * Math.PI);
      ctx.fill();
      ctx.textAlign = x > bbox.left + bbox.width / 2 ? "right" : "left";
      ctx.fillText("you", x + (ctx.textAlign === "left" ? 9 : -9) * unit, own + 14 * unit);
    }
    ctx.restore();
  };

  const scalingChart = (figure, of, kind) => {
    const chart = of.scaling[Number(kind.split("-")[1])];
    const curves = chart.unit !== undefined, long = (x) => (x >= 1000 ? `${grouped.format(x)} s` : seconds(x));
    const value = chart.unit === "dollars" ? dollars : long;
    const [xs, columns] = joined(chart.series.map((line) => line.points));
    const series = [{}], data = [xs], bands = [];
    columns.forEach((list, index) => {
      const at = series.length;
      series.push({ label: chart.series[index].name, stroke: color(index), width: 2, spanGaps: true, points: { show: !curves, size: 7, fill: color(index) } });
      data.push(list.map((point) => point?.[1]));
      if (curves) return;
      [3, 2].forEach((end) => {
        series.push({ label: "", stroke: "transparent", spanGaps: true, points: { show: false }, class: "hidden" });
        data.push(list.map((point) => point?.[end]));
      });
      bands.push({ series: [at + 1, at + 2], fill: `${color(index)}2e` });
    });
    const logarithmic = xs[0] > 0 && xs.at(-1) / xs[0] >= 8;
    const format = chart.parameter.endsWith("bytes") ? (chart.decimal ? bytes : binary) : curves ? counts : (x) => `${number(x).replace(/\.0+$/, "")} `;
    const label = chart.label ?? chart.parameter.replace(/_bytes$/, "").replaceAll("_", " ");
    const axes = [axis(label, format, { splits: curves ? decades : () => xs }), axis(null, value, { size: curves ? 88 : 64 })];
    const spread = logarithmic ? [xs[0] / 1.2, xs.at(-1) * 1.2] : undefined;
    const x = { time: false, distr: logarithmic ? 3 : 1, log: curves ? 10 : 2, ...(spread && { range: spread }) };
    const found = options(figure, axes, series, { x, y: chart.logarithmic ? { distr: 3 } : { range } });
    if (curves) found.hooks = { draw: [(plot) => annotate(plot, chart)] };
    found.bands = bands;
    return [found, data];
  };

  const charts = new Map();
  const draw = (figure) => {
    const plot = figure.querySelector(".plot");
    charts.get(figure)?.destroy();
    const { kind } = figure.dataset;
    const make = kind === "runs" ? runsChart : kind === "throughput" ? throughputChart : scalingChart;
    const [found, data] = make(plot, cases[figure.dataset.case], kind);
    charts.set(figure, new uPlot(found, data, plot));
  };
  const redraw = () => [...charts.keys()].forEach(draw);

  // Charts are drawn when they come near the screen, so that a page of many opens at once.
  const figures = [...document.querySelectorAll("figure.chart")];
  const watcher = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    watcher.unobserve(entry.target);
    if (!charts.has(entry.target)) draw(entry.target);
  }), { rootMargin: "600px" });
  figures.forEach((figure) => watcher.observe(figure));
  addEventListener("beforeprint", () => {
    figures.filter((figure) => !charts.has(figure)).forEach(draw);
    document.querySelectorAll("figure details").forEach((details) => { details.open = true; });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 150);
  });

  // The table of raw runs is built when it is opened, in pieces that leave the page responsive.
  const PIECE = 500;
  const columns = [
    ["run", (_, at) => at + 1], ["contender", (of, at) => of.contenders[of.runs.contender[at]] ?? "?"], ["round", (of, at) => of.runs.round[at]],
    ["time", (of, at) => seconds(of.runs.seconds[at])], ["user", (of, at) => seconds(of.runs.user[at])],
    ["system", (of, at) => seconds(of.runs.system[at])], ["peak memory", (of, at) => bytes(of.runs.memory[at])],
    ["bytes", (of, at) => bytes(of.runs.bytes[at])], ["on the wire", (of, at) => bytes(of.runs.wire[at])],
    ["requests", (of, at) => of.runs.requests[at] ?? ""],
    ["remarks", (of, at) => { const s = of.runs.state[at]; return s === -1 ? "" : s === -2 ? "warm-up" : of.reasons[s]; }],
  ];
  const cell = (row, tag, text, left) => { const made = row.appendChild(document.createElement(tag)); made.textContent = text; if (!left) made.className = "n"; };
  const isLeft = (name) => name === "contender" || name === "remarks";
  document.querySelectorAll("details.raw").forEach((details) => details.addEventListener("toggle", () => {
    const place = details.querySelector(".scroll"), of = cases[details.dataset.case];
    if (!details.open || place.firstChild) return;
    const table = place.appendChild(document.createElement("table"));
    const head = table.createTHead().insertRow();
    columns.forEach(([name]) => cell(head, "th", name, isLeft(name)));
    const body = table.createTBody();
    let at = 0;
    const piece = () => {
      for (const end = Math.min(at + PIECE, of.runs.seconds.length); at < end; at++) {
        const row = body.insertRow();
        if (of.runs.state[at] !== -1) row.className = "out";
        columns.forEach(([name, text]) => cell(row, "td", text(of, at), isLeft(name)));
      }
      if (at < of.runs.seconds.length) requestAnimationFrame(piece);
      else details.dataset.complete = at;
    };
    piece();
  }));
  document.body.dataset.ready = figures.length;
})();
