/* SPDX-License-Identifier: Apache-2.0
   Draws the report's pictures with uPlot from the JSON embedded in the page, those of a folded step
   when it is opened, and lets the reader find, filter and fold the steps. Needs no network, writes
   text only through textContent, and keeps every number as it came. */
"use strict";
(() => {
const root = document.documentElement;
const check = document.getElementById("selfcheck");
const problems = [];
window.addEventListener("error", e => { problems.push(String(e.message)); report(); });
/* A reader sees problems alone. */
const report = () => {
	if (!check) return;
	check.hidden = !problems.length;
	check.textContent = `pictures: ${problems.join("; ") || "ok"}`;
};

const asked = new URLSearchParams(location.search).get("theme");
if (asked === "dark" || asked === "light") root.dataset.theme = asked;
const preferred = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : preferred.matches);

const el = (tag, cls, text) => {
	const node = document.createElement(tag);
	if (cls) node.className = cls;
	if (text !== undefined) node.textContent = text;
	return node;
};
const css = name => getComputedStyle(root).getPropertyValue(name).trim();

/* Up to eight series have colours of their own; more share one scale of hues, in their order. */
const FEW = { light: ["#1d5c88", "#b8541c", "#2d7a54", "#7a4a93", "#a07a00", "#b03a5b", "#3f8f9c", "#5f6670"],
	dark: ["#7fb8dd", "#eb9a63", "#79c79c", "#c39be0", "#dcb84f", "#ee88a5", "#7ecbd6", "#a9b2bb"] };
const colour = (i, n, alpha) => {
	if (n <= 8) {
		const hex = FEW[isDark() ? "dark" : "light"][i];
		return alpha === undefined ? hex : hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
	}
	const hue = 215 + 290 * i / (n - 1);
	return `hsla(${hue % 360}, ${isDark() ? "62%, 68%" : "58%, 42%"}, ${alpha === undefined ? 1 : alpha})`;
};

/* Sequential, told apart without red and green; the lowest count differs from the paper. */
const RAMP = { light: ["#a9cbe2", "#6fa8d0", "#3b82ba", "#175a96", "#063264"],
	dark: ["#2f5876", "#3d80ab", "#63aed4", "#a9d8e6", "#fdf6cf"] };
const ramp = part => {
	const stops = RAMP[isDark() ? "dark" : "light"], at = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
	const k = Math.min(Math.floor(at), stops.length - 2), f = at - k;
	const rgb = i => [1, 3, 5].map(o => parseInt(stops[i].slice(o, o + 2), 16));
	const a = rgb(k), b = rgb(k + 1);
	return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * f)).join(",")})`;
};
/* The colours of the counts 1 to most, on a logarithmic scale. */
const ramped = most => {
	const steps = Array.from({ length: 65 }, (_, k) => ramp(k / 64)), full = Math.log(Math.max(most, 2));
	return count => steps[Math.round(64 * Math.log(count) / full)];
};

/* --- numbers --- */
const NARROW = "\u202f", MINUS = "\u2212";
const group = s => s.replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
const amount = (n, thing) => `${group(String(n))} ${thing}${String(n) === "1" ? "" : "s"}`;
/* The first texts of a list, and how many it has more. */
const few = (list, most) => [...list.slice(0, most), ...(list.length > most ? [`${list.length - most} more`] : [])].join(" · ");
const show = (v, whole = false, unit = "") => {
	if (v === null || v === undefined) return "–";
	const a = Math.abs(v);
	let d = whole && Number.isInteger(v) ? 0 : a >= 100 || a === 0 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : 3;
	/* A share that is neither 0 nor 100 % is not shown as that. */
	if (unit === "%" && a % 100 && Math.abs(a - 100) > 1e-7)
		for (; d < 20; d++) if (+a.toFixed(d) % 100 !== 0) break;
	let text = a.toFixed(d);
	/* Half to even, as in the tables: only such a number of halves is exact in binary. */
	if (a * 2 ** (d + 1) % 2 === 1 && "13579".includes(text.slice(-1))) text = (a - 0.5 / 10 ** d).toFixed(d);
	const [w, f] = text.split(".");
	return (v < 0 ? MINUS : "") + group(w) + (f ? "." + f : "");
};
/* Both ends of a bin, with more digits where they look the same. */
const between = (from, to, shown) => {
	const ends = [from, to].map(shown);
	return (ends[0] === ends[1] ? [from, to].map(v => (v < 0 ? MINUS : "") + group(String(+Math.abs(v).toFixed(3)))) : ends).join(" to ");
};
/* The bin of the cursor. uPlot gives the nearest value. */
const binAt = (u, edges, nearest) => {
	const v = u.posToVal(u.cursor.left, "x");
	let k = nearest;
	while (k > 0 && v < edges[k]) k--;
	while (k + 2 < edges.length && v >= edges[k + 1]) k++;
	return k;
};
const tick = v => {
	const [w, f] = String(+Math.abs(v).toPrecision(12)).split(".");
	return (v < 0 ? MINUS : "") + group(w) + (f ? "." + f : "");
};
const seconds = v => v >= 7200 ? (v / 3600).toFixed(2) + NARROW + "h" : v >= 600 ? (v / 60).toFixed(1) + NARROW + "min" : (v < 1 ? String(+v.toPrecision(3)) : show(v)) + NARROW + "s";
/* A length of time. Places on the axis of time are in seconds. */
const length = ns => ns < 1e6 ? show(ns / 1e3) + NARROW + "µs" : ns < 1e9 ? show(ns / 1e6) + NARROW + "ms" : seconds(ns / 1e9);
const SUP = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const power = v => {
	const e = Math.round(Math.log10(v));
	if (e >= 0 && e <= 3) return group(String(10 ** e));
	if (e >= -2 && e < 0) return String(+(10 ** e).toPrecision(1));
	return "10" + (e < 0 ? "⁻" : "") + String(Math.abs(e)).split("").map(d => SUP[d]).join("");
};

/* Ticks of a logarithmic axis: decades, and 2 and 5 between them where there is room. */
const logSplits = (lo, hi, room) => {
	const a = Math.floor(Math.log10(lo)), b = Math.ceil(Math.log10(hi));
	const decades = Math.log10(hi / lo);
	const within = decades * 3 <= room ? [1, 2, 5] : [1];
	const every = within.length > 1 ? 1 : Math.max(1, Math.ceil(decades / room));
	const out = [];
	for (let e = a; e <= b; e++) {
		if (((e % every) + every) % every) continue;
		for (const m of within) {
			const v = m * 10 ** e;
			if (v >= lo * 0.999 && v <= hi * 1.001) out.push(+v.toPrecision(1));
		}
	}
	return out.length < 2 && hi > lo ? evenSplits(lo, hi, room) : out;
};
/* Evenly spaced ticks, where there is less than one step of the scale. */
const evenSplits = (lo, hi, room) => {
	const step = 10 ** Math.floor(Math.log10((hi - lo) / 2));
	const even = [];
	for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) even.push(+v.toPrecision(12));
	const skip = Math.max(1, Math.ceil(even.length / room));
	return even.filter((_, i) => i % skip === 0);
};

const axisBase = () => ({ stroke: css("--soft"), font: "11px " + css("--sans"), labelFont: "11px " + css("--sans"), labelGap: 2,
	grid: { stroke: css("--hair"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 }, gap: 4, labelSize: 18 });

/* A scale and an axis for values of the unit. kind: log, asinh or linear. */
const valueScale = (kind, x) => {
	const least = x[0], most = x[x.length - 1];
	const f = kind === "log" ? Math.log : kind === "asinh" ? Math.asinh : v => v;
	const g = kind === "log" ? Math.exp : kind === "asinh" ? Math.sinh : v => v;
	const room = (f(most) - f(least)) * 0.03 || 0.05;
	const all = [g(f(least) - room), g(f(most) + room)];
	const range = (u, a, b) => a === null || (a <= least && b >= most) ? all : [Math.max(a, all[0]), Math.min(Math.max(b, a + Math.abs(a) * 1e-4 + 1e-6), all[1])];
	return Object.assign({ time: false, range }, kind === "log" ? { distr: 3, log: 10 } : kind === "asinh" ? { distr: 4, asinh: 1 } : {});
};
const valueAxis = (kind, label, x) => Object.assign(axisBase(), {
	label, size: x ? 34 : 52,
	splits: kind === "log" ? (u, i, lo, hi) => logSplits(lo, hi, x ? u.bbox.width / devicePixelRatio / 52 : u.bbox.height / devicePixelRatio / 34)
		: kind === "asinh" ? (u, i, lo, hi) => {
			const pos = hi > 1 ? logSplits(1, hi, 3.2) : [], neg = lo < -1 ? logSplits(1, -lo, 3.2).map(v => -v).reverse() : [];
			const all = [...neg, 0, ...pos].filter(v => v >= lo && v <= hi);
			return all.length < 3 ? evenSplits(lo, hi, 6) : all;
		} : undefined,
	values: (u, splits) => splits.map(v => v === null ? "" : tick(v)),
	filter: (u, splits) => splits,
});
const countAxis = label => Object.assign(axisBase(), {
	label, size: 52,
	splits: (u, i, lo, hi) => {
		const out = [];
		const a = Math.ceil(Math.log10(lo) - 1e-9), b = Math.floor(Math.log10(hi) + 1e-9);
		const every = Math.max(1, Math.ceil((b - a) / (u.bbox.height / devicePixelRatio / 26)));
		for (let e = b; e >= a; e--) if ((b - e) % every === 0) out.push(10 ** e);
		return out.reverse();
	},
	values: (u, splits) => splits.map(power),
	filter: (u, splits) => splits,
});

/* Zoom by keyboard, as by drag and double-click. */
const keys = (u, box) => {
	box.addEventListener("keydown", e => {
		if (e.ctrlKey || e.metaKey || e.altKey) return;   /* the browser's own zoom and history */
		const s = u.scales.x, log = s.distr === 3;
		const f = log ? Math.log : v => v, g = log ? Math.exp : v => v;
		const lo = f(s.min), hi = f(s.max), w = hi - lo;
		const move = (a, b) => { u.setScale("x", { min: g(a), max: g(b) }); e.preventDefault(); };
		if (e.key === "+" || e.key === "=") move(lo + w / 4, hi - w / 4);
		else if (e.key === "-") move(lo - w / 2, hi + w / 2);
		else if (e.key === "ArrowLeft") move(lo - w / 8, hi - w / 8);
		else if (e.key === "ArrowRight") move(lo + w / 8, hi + w / 8);
		else if (e.key === "0" || e.key === "Escape") { u.setData(u.data, true); e.preventDefault(); }
	});
};

/* A text on the background of the page, so that no line crosses it. */
const label = (c, text, ...at) => {
	c.setLineDash([]); c.strokeStyle = css("--paper"); c.lineWidth = 4 * devicePixelRatio; c.lineJoin = "round";
	c.strokeText(text, ...at); c.fillText(text, ...at);
};
const vline = (u, value, text, stroke, dash, level) => {
	const s = u.scales.x;
	if (value === null || value < s.min || value > s.max) return;
	const x = Math.round(u.valToPos(value, "x", true)), c = u.ctx, r = devicePixelRatio;
	c.save();
	c.strokeStyle = stroke; c.fillStyle = stroke; c.lineWidth = r; c.setLineDash(dash.map(d => d * r));
	c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke();
	c.font = `600 ${11 * r}px ${css("--sans")}`;
	const room = c.measureText(text).width + 8 * r, right = x + room > u.bbox.left + u.bbox.width;
	c.textAlign = right ? "right" : "left"; c.textBaseline = "top";
	/* On neither side of the line: from the left end of the picture. */
	const across = right && x - room < u.bbox.left;
	if (across) c.textAlign = "left";
	label(c, text, across ? u.bbox.left + 4 * r : x + (right ? -5 : 5) * r, u.bbox.top + (3 + 15 * level) * r, u.bbox.width - 8 * r);
	c.restore();
};
const hline = (u, value, text, stroke) => {
	const s = u.scales.y;
	if (value === null || value < s.min || value > s.max) return;
	const y = Math.round(u.valToPos(value, "y", true)), c = u.ctx, r = devicePixelRatio;
	c.save();
	c.strokeStyle = stroke; c.fillStyle = stroke; c.lineWidth = r; c.setLineDash([6 * r, 4 * r]);
	c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke();
	c.font = `600 ${11 * r}px ${css("--sans")}`; c.textAlign = "right"; c.textBaseline = "bottom";
	label(c, text, u.bbox.left + u.bbox.width - 4 * r, y - 2 * r);
	c.restore();
};

/* A quantity over time or series may reach over decades, or below zero: how its axis is laid. */
const spread = (lo, hi, linear) => linear || lo <= 0 || hi / lo < 8
	? { kind: "linear", scale: { range: [Math.min(0, lo * 1.05), Math.max(0, hi * 1.08) || (lo < 0 ? 0 : 1)] } }
	: { kind: "log", scale: { distr: 3, log: 10, range: [lo * 0.8, hi * 1.25] } };

/* Dashes of lines that share a colour; the same as on paper. */
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

/* Kinds of pictures that share the step's time. */
const TIMED = ["time", "heat", "strip"];

const HINT = "Drag in a picture to enlarge a part. Double-click, or press 0, to reset. With the keyboard: + and − zoom, ← and → move. Click a name in the legend to hide that series, double-click to show it alone.";

/* --- one quantity of one step: a legend and its pictures --- */
class Group {
	constructor(box, data) {
		this.box = box; this.data = data;
		this.n = data.labels.length;
		this.on = data.labels.map(() => true);
		this.linear = {};
		this.chosen = null;
		this.unit = data.unit;
		/* As in the tables, the error of a calibration is 0. */
		this.show = v => data.raw_unit === "ns" && v < 0 && v > -0.005 ? "0.00" : show(v, data.div === 1);
		this.charts = [];
		const top = data.max.map(v => v === null ? -Infinity : v);
		this.worst = top.indexOf(Math.max(...top));
		this.legend();
		this.maps = data.heat ? data.heat.maps : [];
		this.answers = data.persistence ? data.persistence.panels : [];
		this.recorded = data.persistence && data.persistence.waves || [];
		this.window = data.window;
		box.querySelectorAll("figure[data-kind]").forEach((figure, k) => this.furnish(figure, ...data.texts[k]));
		box.querySelectorAll("figure[data-kind=strip]").forEach((figure, k) => { figure.strip = data.strips[k]; });
		for (const figure of box.querySelectorAll("figure[data-kind]")) this.tools(figure);
		box.append(el("p", "hint", HINT));
		this.draw();
	}
	/* Several lines of a set of runs share a colour and differ in their dashes. */
	tone(i, alpha) { return this.data.hues ? colour(this.data.hues[i], this.data.hued, alpha) : colour(i, this.n, alpha); }
	dash(i) { return this.data.dashes ? DASHES[this.data.dashes[i] % DASHES.length] : undefined; }
	swatch(s, i) {
		if (!this.data.dashes) { s.style.background = this.tone(i); return; }
		s.classList.add("line");
		s.style.borderTop = `3px ${["solid", "dashed", "dotted", "double"][this.data.dashes[i] % 4]} ${this.tone(i)}`;
	}
	visible() { return this.on.map((v, i) => v ? i : -1).filter(i => i >= 0); }
	/* The worst series last, so that it is drawn above the others. */
	ordered() { return this.visible().sort((a, b) => (a === this.worst) - (b === this.worst) || a - b); }
	value(v) { return v === null || v === undefined ? null : v / this.data.div; }
	/* A maximum, with all its digits where it would look like the budget. */
	largest(v) { const limit = this.value(this.data.budget), text = this.show(v); return limit !== null && v !== limit && text === this.show(limit) ? tick(v) : text; }
	atLeast(limit) { return limit ? "≥" + NARROW : ""; }
	label(x) { return this.unit ? x + " (" + this.unit + ")" : x; }
	legend() {
		const box = this.box.querySelector(".legend");
		if (!box || this.n < 2) { if (box) box.remove(); return; }
		this.buttons = this.data.labels.map((text, i) => {
			const b = el("button"); b.type = "button";
			const s = el("span", "swatch"); this.swatch(s, i);
			b.append(s, text);
			b.title = "Click to hide or show. Double-click to show it alone.";
			b.addEventListener("click", () => { this.on[i] = !this.on[i]; this.redraw(); });
			b.addEventListener("dblclick", () => { this.on = this.on.map((_, k) => k === i); this.redraw(); });
			box.append(b);
			return b;
		});
		const some = (text, f) => { const b = el("button", "all", text); b.type = "button"; b.addEventListener("click", () => { this.on = this.data.labels.map((_, i) => f(i)); this.redraw(); }); box.append(b); };
		if (this.n > 8) box.classList.add("many");
		if (!this.data.compare) some("Only the worst", i => i === this.worst);
		some("All", () => true);
	}
	redraw() {
		if (this.buttons) this.buttons.forEach((b, i) => { b.setAttribute("aria-pressed", String(this.on[i])); this.swatch(b.firstChild, i); });
		this.draw();
	}
	draw() {
		for (const u of this.charts) u.destroy();
		this.charts = [];
		if (this.buttons) this.buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(this.on[i])));
		for (const figure of this.box.querySelectorAll("figure[data-kind]")) {
			figure.querySelector(".readout").textContent = "";
			const u = this[figure.dataset.kind](figure);
			if (u) { this.charts.push(u); keys(u, u.root); }
			/* An axis that is linear anyway has no other scale. */
			if (figure.scales) figure.scales.hidden = !this.linear[figure.dataset.kind] && !(u && u.scales.y.distr === 3);
		}
	}
	resize() { if (!printing) for (const u of this.charts) { const p = u.root.parentNode; if (p.clientWidth) u.setSize({ width: p.clientWidth, height: p.clientHeight }); } }
	base(figure, extra) {
		const box = figure.querySelector(".canvas");
		const readout = figure.querySelector(".readout");
		const o = Object.assign({
			/* On paper a line is about 690 pixels wide; heights as the style sheet has them there. */
			width: printing ? (figure.classList.contains("full") ? 690 : 334) : Math.max(box.clientWidth, 200),
			height: printing ? (figure.classList.contains("strip") ? 96 : 216) : Math.max(box.clientHeight, 80),
			legend: { show: false }, padding: [8, TIMED.includes(figure.dataset.kind) ? 10 : 22, 0, 0],
			cursor: { drag: { x: true, y: false, setScale: true }, focus: { prox: 24 }, points: { size: 6 } },
			focus: { alpha: this.n > 1 ? 0.35 : 1 },
		}, extra.options);
		/* A single position has no line: draw it as a dot. */
		if (figure.dataset.kind !== "histogram") o.series.forEach((s, i) => {
			if (i && s.stroke !== "transparent" && s.width !== 0 && extra.data[i].filter(v => v !== null).length < 3) s.points = { show: true, size: 6 };
		});
		o.hooks = Object.assign({}, extra.hooks, {
			setCursor: [u => { readout.textContent = u.cursor.idx === null || u.cursor.idx === undefined || u.cursor.left < 0 ? "" : extra.tell(u, u.cursor.idx); }],
			setSeries: [(u, i) => { u.focused = i; }],
		});
		if (TIMED.includes(figure.dataset.kind)) {
			o.cursor.sync = { key: this.box.dataset.group, setSeries: false, scales: ["x", null] };
			o.hooks.setScale = [(u, key) => { if (key === "x") this.together(u); }];
		}
		const u = new uPlot(o, extra.data, box);
		u.timed = TIMED.includes(figure.dataset.kind);
		u.root.tabIndex = 0;
		u.root.setAttribute("role", "img");
		u.root.setAttribute("aria-label", figure.querySelector("h4").textContent + ". " + figure.querySelector(".says").textContent);
		return u;
	}
	/* What is enlarged in one picture over time is enlarged in the others. */
	together(u) {
		if (!this.charts.includes(u)) return;
		const { min, max } = u.scales.x;
		for (const other of this.charts) if (other !== u && other.timed && (other.scales.x.min !== min || other.scales.x.max !== max)) other.setScale("x", { min, max });
	}
	kind(values) { return values.some(v => v !== null && v <= 0) ? "asinh" : "log"; }
	line(i, more) {
		const crowd = !this.data.hues, many = crowd && this.visible().length > 8, worst = crowd && i === this.worst && this.n > 8;
		return Object.assign({ dash: this.dash(i), stroke: this.tone(i, many && !worst ? 0.45 : 1), width: worst ? 2 : many ? 1 : 1.6, points: { show: false } }, more);
	}
	/* A value with no neighbour has no line: a dot. */
	lonely(y) { return y.map((_, k) => k).filter(k => y[k] !== null && (y[k - 1] ?? null) === null && (y[k + 1] ?? null) === null); }
	alone(fill) {
		const filter = (u, s) => { const found = this.lonely(u.data[s]); return found.length ? found : null; };
		return { points: { show: false, filter, size: 4, width: 0, fill } };
	}
	histogram(figure) {
		const { edges, counts } = this.data.histogram, vis = this.ordered();
		if (edges.length < 2) return null;
		const x = edges.map(v => this.value(v));
		const kind = this.kind(x);
		const ys = vis.map(i => [...counts[i].map(c => c || 0.5), 0.5]);
		const top = Math.max(10, ...counts.map(c => c.reduce((a, b) => Math.max(a, b), 0)));
		const stepped = uPlot.paths.stepped({ align: 1 });
		return this.base(figure, {
			data: [x, ...ys],
			options: {
				scales: { x: valueScale(kind, x), y: { distr: 3, log: 10, range: [0.5, top * 1.6] } },
				axes: [valueAxis(kind, this.label(this.data.quantity), true), countAxis("samples per bin")],
				series: [{}, ...vis.map(i => this.line(i, { paths: stepped, fill: vis.length <= 3 && !this.data.hues ? colour(i, this.n, 0.14) : undefined, fillTo: () => 0.5 }))],
			},
			hooks: { draw: [u => this.lines(u)] },
			tell: (u, idx) => {
				const k = binAt(u, x, Math.min(idx, edges.length - 2)), f = u.focused ? vis[u.focused - 1] : vis[0];
				if (f === undefined) return "";
				return `${between(x[k], x[k + 1], this.show)}${NARROW}${this.unit}: ${amount(counts[f][k], "sample")}` + (this.n > 1 ? `, ${this.data.labels[f]}` : "");
			},
		});
	}
	lines(u) {
		const vis = this.visible();
		if (!vis.length || this.data.compare) return;
		const highest = Math.max(...vis.map(i => this.data.max[i] === null ? -Infinity : this.data.max[i]));
		if (Number.isFinite(highest)) {
			/* A lower limit of the maximum may be beyond all samples, and so may a lost sample. */
			const top = this.value(highest), limit = vis.some(i => this.data.at_least[i]), end = u.data[0][u.data[0].length - 1], beyond = top > end;
			vline(u, beyond ? end : top, `max ${this.atLeast(limit)}${limit ? this.show(top) : this.largest(top)}${this.unit && NARROW + this.unit}${beyond ? NARROW + "→" : ""}`, css("--ink"), [2, 3], 0);
		}
		if (this.data.budget !== null) vline(u, this.value(this.data.budget), "budget", css("--fail"), [6, 4], 1);
		if (this.data.mark) vline(u, this.value(this.data.mark[0]), this.data.mark[1], css("--accent"), [1, 3], 2);
	}
	/* The second line of a quantity, where it has one. */
	second(u) { if (this.data.mark) hline(u, this.value(this.data.mark[0]), this.data.mark[1], css("--accent")); }
	/* The quantity over a numeric label of its series. */
	against(figure) {
		const a = this.data.against, n = a.lines.length;
		const x = [...new Set(a.x.flat())].sort((p, q) => p - q), place = new Map(x.map((v, k) => [v, k]));
		const row = (i, key) => { const out = new Array(x.length).fill(null); a.x[i].forEach((v, k) => { const at = place.get(v), was = out[at], now = this.value(a[key][i][k]); out[at] = was === null ? now : key === "low" ? Math.min(was, now) : Math.max(was, now); }); return out; };
		const data = [x], series = [{}], bands = [], highs = [], limits = [];
		let lo = Infinity, hi = -Infinity;
		a.lines.forEach((_, i) => {
			const low = row(i, "low"), middle = row(i, "middle"), high = row(i, "high"), tail = row(i, "tail").map((v, k) => v === null ? high[k] : v);
			for (const v of [...low, ...high]) if (v !== null) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
			const at = data.length, none = { stroke: colour(i, n, 0), width: 0, points: { show: false } };
			data.push(middle, tail, low);
			series.push({ stroke: colour(i, n), width: 1.6, spanGaps: true, points: { show: true, size: 5, fill: colour(i, n) } }, none, none);
			bands.push({ series: [at + 1, at + 2], fill: colour(i, n, n > 4 ? 0.06 : 0.13) });
			highs.push(high);
			limits.push(x.map(v => a.x[i].some((one, k) => one === v && a.at_least[i][k])));
		});
		if (!Number.isFinite(lo)) return null;
		const { kind, scale } = spread(lo, hi, this.linear.against);
		const wide = x[0] > 0 && x[x.length - 1] / x[0] >= 20;
		if (n > 1 && !figure.querySelector(".keys")) figure.querySelector("h4").append(el("span", "keys"));
		const keysBox = figure.querySelector(".keys");
		if (keysBox) keysBox.replaceChildren(...a.lines.map((text, i) => { const k = el("span"), w = el("span", "swatch"); w.style.background = colour(i, n); k.append(w, text); return k; }));
		return this.base(figure, {
			data,
			options: {
				bands,
				scales: { x: Object.assign({ time: false, range: wide ? (u, p, q) => p === null || p <= x[0] && q >= x[x.length - 1] ? [x[0] * 0.85, x[x.length - 1] * 1.18] : [p, q] : (u, p, q) => { const room = (q - p) * 0.04 || 0.5; return p === null ? [0, 1] : [p - room, q + room]; } }, wide ? { distr: 3, log: 10 } : {}), y: scale },
				axes: [Object.assign(axisBase(), { label: a.label, size: 34, splits: () => x, filter: (u, s) => s, values: (u, s) => { let last = -Infinity; return s.map(v => { const px = u.valToPos(v, "x"); if (px - last < 26) return ""; last = px; return tick(v); }); } }), valueAxis(kind, this.label(this.data.quantity), false)],
				series,
				focus: { alpha: 1 },
			},
			hooks: { draw: [u => {
				const c = u.ctx, r = devicePixelRatio;
				c.save();
				highs.forEach((high, i) => high.forEach((v, k) => {
					if (v === null || x[k] < u.scales.x.min || x[k] > u.scales.x.max) return;
					const px = u.valToPos(x[k], "x", true), py = u.valToPos(v, "y", true);
					c.fillStyle = colour(i, n);
					c.beginPath(); c.moveTo(px, py - 4 * r); c.lineTo(px - 4 * r, py + 3 * r); c.lineTo(px + 4 * r, py + 3 * r); c.closePath(); c.fill();
				}));
				c.restore();
				if (this.data.budget !== null) hline(u, this.value(this.data.budget), "budget", css("--fail"));
			}] },
			tell: (u, idx) => `${a.label} ${x[idx]}: ` + few(a.lines.map((text, i) => [text, data[1 + 3 * i][idx], highs[i][idx], limits[i][idx]]).filter(p => p[2] !== null).map(([text, m, h, limit]) => `${text ? text + " " : ""}median ${this.show(m)}, max ${this.atLeast(limit)}${this.show(h)}${NARROW}${this.unit}`), 3),
		});
	}
	ccdf(figure) {
		const c = this.data.ccdf, vis = this.ordered();
		if (!c.x.length) return null;
		const x = c.x.map(v => this.value(v));
		const kind = this.kind(x);
		const part = (row, total) => x.map((_, k) => k < row.length && total ? row[k] / total : null);
		const data = [x], series = [{}], meaning = [null];
		for (const i of vis) {
			data.push(part(c.reached[i], c.total[i])); series.push(this.line(i, { paths: uPlot.paths.stepped({ align: -1 }) })); meaning.push([i, false]);
			if (c.corrected[i]) {
				data.push(part(c.corrected[i], c.corrected_total[i]));
				series.push(this.line(i, { dash: [5, 4], paths: uPlot.paths.stepped({ align: -1 }) })); meaning.push([i, true]);
			}
		}
		const least = 1 / Math.max(10, ...c.total, ...c.corrected_total);
		return this.base(figure, {
			data,
			options: {
				scales: { x: valueScale(kind, x), y: { distr: 3, log: 10, range: [least * 0.7, 1.2] } },
				axes: [valueAxis(kind, this.label(this.data.quantity), true), countAxis("share of samples at least this large")],
				series,
			},
			hooks: { draw: [u => this.lines(u)] },
			tell: (u, idx) => {
				const m = meaning[u.focused || 1];
				if (!m) return "";
				const [i, corrected] = m, row = corrected ? c.corrected[i] : c.reached[i], total = corrected ? c.corrected_total[i] : c.total[i];
				const n = idx < row.length ? row[idx] : 0;
				return `≥ ${this.show(x[idx])}${NARROW}${this.unit}: ${group(String(n))} of ${group(String(total))}` + (corrected ? ", corrected" : "") + (this.n > 1 ? `, ${this.data.labels[i]}` : "");
			},
		});
	}
	time(figure) {
		const t = this.data.time;
		if (!t) return null;
		const vis = this.visible(), number = t.high[0].length ? t.high[0].length : Math.max(...t.high.map(r => r.length));
		const x = Array.from({ length: number }, (_, k) => (t.start_ns + t.bin_ns * (k + 0.5)) / 1e9);
		const get = row => x.map((_, k) => this.value(row[k]));
		const data = [x], series = [{}], bands = [], meaning = [null], bars = [];
		const detail = vis.length <= 2, crowd = vis.length > 8;
		let lo = Infinity, hi = -Infinity;
		const scan = row => { for (const v of row) if (v !== null) { if (v < lo) lo = v; if (v > hi) hi = v; } };
		if (detail) {
			for (const i of vis) {
				const rows = [get(t.high[i]), get(t.low[i]), get(t.middle[i])];
				rows.forEach(scan);
				const at = data.length;
				if (t.floor) { /* of each series the max alone */
					data.push(rows[0]); series.push(this.line(i, { width: 1.4, ...this.alone(this.tone(i)) })); meaning.push([i, "max"]);
					continue;
				}
				data.push(...rows);
				for (const k of this.lonely(rows[0])) if (rows[1][k] !== null && rows[1][k] < rows[0][k]) bars.push([i, x[k], ...rows.map(row => row[k])]);
				series.push(this.line(i, { width: 1.4, ...this.alone(this.tone(i)) }), this.line(i, { width: 0, stroke: colour(i, this.n, 0) }), this.line(i, { width: 1, dash: [3, 3] }));
				bands.push({ series: [at, at + 1], fill: colour(i, this.n, 0.13) });
				meaning.push([i, "max"], [i, "min"], [i, "median"]);
			}
		} else {
			const env = (rows, f) => x.map((_, k) => { let r = null; for (const row of rows) { const v = row[k]; if (v !== null && v !== undefined) r = r === null ? v : f(r, v); } return this.value(r); });
			const rows = [env(vis.map(i => t.high[i]), Math.max), env(t.floor ? [t.floor] : vis.map(i => t.low[i]), Math.min)];
			rows.forEach(scan);
			data.push(...rows);
			const none = { stroke: "transparent", width: 0, points: { show: false } };
			series.push(crowd ? { stroke: css("--faint"), width: 1, points: { show: false } } : none, none);
			bands.push({ series: [1, 2], fill: css("--hair") });
			meaning.push(null, null);
			if (!crowd) for (const i of this.ordered()) {
				data.push(get(t.high[i])); series.push(this.line(i, this.alone(this.tone(i)))); meaning.push([i, "max"]);
			}
		}
		if (!Number.isFinite(lo)) return null;
		const budget = this.value(this.data.budget);
		if (budget !== null) hi = Math.max(hi, Math.min(budget, hi * 4));
		const { kind, scale } = spread(lo, hi, this.linear.time);
		/* With many series, only the maximum of each bin is drawn, as a dot in the colour of its series. */
		const who = crowd ? x.map((_, k) => { let w = null; for (const i of vis) { const v = t.high[i][k]; if (v !== null && v !== undefined && (w === null || v > t.high[w][k])) w = i; } return w; }) : null;
		const marks = t.marks.filter(m => this.on[m[1]]);
		return this.base(figure, {
			data,
			options: {
				bands,
				scales: { x: { time: false, range: (u, a, b) => a === null ? [0, 1] : a === b ? [a - 0.5, b + 0.5] : [a, b] }, y: scale },
				axes: [Object.assign(axisBase(), { label: "time since the start of the step (s)", size: 34, values: (u, s) => s.map(tick) }), valueAxis(kind, this.label(this.data.quantity), false)],
				series,
			},
			hooks: { draw: [u => {
				const cx = u.ctx, r = devicePixelRatio, base = u.bbox.top + u.bbox.height;
				if (budget !== null) hline(u, budget, "budget", css("--fail"));
				this.second(u);
				cx.save();
				/* The band and the median of a bin with no neighbour. */
				for (const [i, at, ...values] of bars) {
					if (at < u.scales.x.min || at > u.scales.x.max) continue;
					const px = u.valToPos(at, "x", true), [top, bottom, middle] = values.map(v => u.valToPos(v, "y", true));
					cx.fillStyle = colour(i, this.n, 0.3); cx.fillRect(px - 2 * r, top, 4 * r, bottom - top);
					cx.fillStyle = colour(i, this.n); cx.fillRect(px - 4 * r, middle - r / 2, 8 * r, r);
				}
				if (who) who.forEach((i, k) => {
					if (i === null || x[k] < u.scales.x.min || x[k] > u.scales.x.max) return;
					cx.fillStyle = colour(i, this.n);
					cx.beginPath(); cx.arc(u.valToPos(x[k], "x", true), u.valToPos(this.value(t.high[i][k]), "y", true), 2.4 * r, 0, 7); cx.fill();
				});
				for (const [bin, , kindOf] of marks) {
					const at = x[bin];
					if (at < u.scales.x.min || at > u.scales.x.max) continue;
					const px = u.valToPos(at, "x", true), missed = kindOf === "missed";
					cx.strokeStyle = css(missed ? "--fail" : "--warn"); cx.fillStyle = missed ? cx.strokeStyle : css("--paper"); cx.lineWidth = r;
					cx.beginPath(); cx.moveTo(px, base - 9 * r); cx.lineTo(px - 4 * r, base - r); cx.lineTo(px + 4 * r, base - r); cx.closePath(); cx.fill(); cx.stroke();
				}
				cx.strokeStyle = css("--accent"); cx.lineWidth = r; cx.setLineDash([r, 3 * r]);
				for (const [at] of this.data.events) {
					if (at < u.scales.x.min || at > u.scales.x.max) continue;
					const px = Math.round(u.valToPos(at, "x", true));
					cx.beginPath(); cx.moveTo(px, u.bbox.top); cx.lineTo(px, base); cx.stroke();
				}
				cx.restore();
			}] },
			tell: (u, idx) => {
				const m = meaning[u.focused || 0], parts = [seconds(x[idx])];
				const i = m ? m[0] : detail ? vis[0] : who ? who[idx] : null;
				if (i === null || i === undefined) parts.push(`max ${this.show(data[1][idx])}${NARROW}${this.unit} of all`);
				else {
					if (this.n > 1) parts.push(this.data.labels[i]);
					const below = t.floor ? "" : `min ${this.show(this.value(t.low[i][idx]))}, median ${this.show(this.value(t.middle[i][idx]))}, `;
					parts.push(`${below}max ${this.show(this.value(t.high[i][idx]))}${NARROW}${this.unit}`);
				}
				for (const k of ["missed", "lost"]) {
					const there = marks.filter(q => q[0] === idx && q[2] === k), named = i !== null && i !== undefined;
					for (const [own, text] of [[true, ""], [false, " by other series"]]) {
						const sum = there.filter(q => (!named || q[1] === i) === own).reduce((a, q) => a + q[3], 0);
						if (sum) parts.push(`${group(String(sum))} ${k}${text}`);
					}
				}
				for (const [at, text] of this.data.events) if (Math.abs(at - x[idx]) <= t.bin_ns / 1e9) parts.push(text);
				return parts.join(" · ");
			},
		});
	}
	/* Cells under the lines of a picture: cell(k) gives [x from, x to, row, count]. */
	cells(u, cells, low, high, hue) {
		const c = u.ctx, b = u.bbox, r = devicePixelRatio, s = u.scales.y;
		const y = v => Math.round(u.valToPos(Math.min(Math.max(v, s.min), s.max), "y", true));
		const base = low.map((v, k) => [y(this.value(v)), y(this.value(high[k] + 1)), this.value(high[k] + 1) < s.min || this.value(v) > s.max]);
		c.save();
		c.beginPath(); c.rect(b.left, b.top, b.width, b.height); c.clip();
		for (const [from, to, row, count] of cells) {
			const [bottom, top, outside] = base[row];
			if (outside || to < u.scales.x.min || from > u.scales.x.max) continue;
			const left = Math.round(u.valToPos(from, "x", true)), right = Math.round(u.valToPos(to, "x", true));
			c.fillStyle = hue(count);
			c.fillRect(left, Math.min(top, bottom - 2 * r), Math.max(right - left, r), Math.max(bottom - top, 2 * r));
		}
		c.restore();
	}
	/* The bar that says which colour is how many. */
	bar(figure, most, what) {
		let box = figure.querySelector(".ramp");
		if (!box) { box = el("div", "ramp"); figure.querySelector(".canvas").after(box); }
		box.replaceChildren();
		const strip = el("span", "scale");
		strip.style.background = `linear-gradient(to right, ${Array.from({ length: 9 }, (_, k) => ramp(k / 8)).join(",")})`;
		for (const [at, text] of [[0, "1"], ...(most > 30 ? [[50, show(Math.round(Math.sqrt(most)), true)]] : []), ...(most > 1 ? [[100, show(most, true)]] : [])]) {
			const mark = el("span", "mark", text);
			mark.style.left = at + "%";
			strip.append(mark);
		}
		box.append(strip, el("span", "", what));
	}
	row(v) { const h = this.data.heat; let a = 0, b = h.low.length - 1; while (a < b) { const m = (a + b + 1) >> 1; if (h.low[m] <= v) a = m; else b = m - 1; } return v >= h.low[a] && v <= h.high[a] + 1 ? a : -1; }
	heat(figure) {
		const h = this.data.heat, t = this.data.time, rows = h.low.length, apart = h.maps.length === this.n;
		const vis = apart ? this.visible() : this.data.labels.map((_, i) => i);
		if (!vis.length) return null;
		const sums = new Array(h.columns * rows).fill(0);
		for (const m of apart ? vis : [0]) this.maps[m].forEach((v, k) => { sums[k] += v; });
		const x = Array.from({ length: Math.max(...t.high.map(r => r.length)) }, (_, k) => (t.start_ns + t.bin_ns * (k + 0.5)) / 1e9);
		const over = (table, f) => x.map((_, k) => { let r = null; for (const row of table) { const v = row[k]; if (v !== null && v !== undefined) r = r === null ? v : f(r, v); } return this.value(r); });
		const line = over(vis.map(i => t.high[i]), Math.max), least = over(t.floor ? [t.floor] : vis.map(i => t.low[i]), Math.min).filter(v => v !== null);
		if (!least.length) return null;
		const lo = least.reduce((a, b) => Math.min(a, b)), hi = line.reduce((a, b) => Math.max(a, b === null ? a : b), lo);
		const { kind, scale } = spread(lo, hi, this.linear.heat);
		const cells = [];
		let most = 1;
		sums.forEach((count, k) => {
			if (!count) return;
			const column = Math.floor(k / rows), from = (h.start_ns + column * h.bin_ns) / 1e9;
			cells.push([from, from + h.bin_ns / 1e9, k % rows, count]);
			most = Math.max(most, count);
		});
		const hue = ramped(most), warm = isDark() ? "#f2a36b" : "#b8541c";
		this.bar(figure, most, `samples in a cell, logarithmic; a cell is ${length(h.bin_ns)} wide`);
		return this.base(figure, {
			data: [x, line],
			options: {
				scales: { x: { time: false, range: (u, a, b) => a === null ? [0, 1] : a === b ? [a - 0.5, b + 0.5] : [a, b] }, y: scale },
				axes: [Object.assign(axisBase(), { label: "time since the start of the step (s)", size: 34, values: (u, s) => s.map(tick) }), valueAxis(kind, this.label(this.data.quantity), false)],
				series: [{}, { stroke: warm, width: 1, ...this.alone(warm) }],
				focus: { alpha: 1 },
			},
			hooks: { drawAxes: [u => this.cells(u, cells, h.low, h.high, hue)] },
			tell: (u, idx) => {
				const parts = [];
				if (u.cursor.top >= 0) {
					const column = Math.floor((u.posToVal(u.cursor.left, "x") * 1e9 - h.start_ns) / h.bin_ns), row = this.row(u.posToVal(u.cursor.top, "y") * this.data.div);
					if (column >= 0 && column < h.columns && row >= 0) parts.push(`${between(this.value(h.low[row]), this.value(h.high[row] + 1), this.show)}${NARROW}${this.unit}: ${amount(sums[column * rows + row], "sample")}`);
				}
				return [seconds(x[idx]), ...parts, `max ${this.show(line[idx])}${NARROW}${this.unit}`].join(" · ");
			},
		});
	}
	/* All series of a crowd: a column for each. */
	series(figure) {
		const { edges, counts } = this.data.histogram, n = this.n;
		if (edges.length < 2) return null;
		const x = counts.map((_, i) => i), tops = this.data.max.map(v => this.value(v));
		const low = edges.slice(0, -1), high = edges.slice(1).map(v => v - 1);
		const cells = [];
		let most = 1;
		counts.forEach((row, i) => row.forEach((count, k) => { if (count) { cells.push([i - 0.46, i + 0.46, k, count]); most = Math.max(most, count); } }));
		const lo = this.value(edges[0]), hi = Math.max(this.value(edges[edges.length - 1]), ...tops.filter(v => v !== null));
		const { kind, scale } = spread(lo, hi, this.linear.series);
		const hue = ramped(most), warm = isDark() ? "#f2a36b" : "#b8541c";
		const words = this.data.labels.map(l => l.replace(/^CPU /, "")).map(l => l.length > 18 ? l.slice(0, 17) + "…" : l);
		const room = 8 + 6.5 * Math.max(...words.map(w => w.length));
		const whole = this.data.labels.every(l => /^CPU \d+$/.test(l)) ? "CPU" : "series";
		this.bar(figure, most, "samples in a cell, logarithmic");
		return this.base(figure, {
			data: [x, tops],
			options: {
				scales: { x: { time: false, range: (u, a, b) => a === null || b - a < 1 ? [-0.6, n - 0.4] : [Math.max(a, 0) - 0.6, Math.min(b, n - 1) + 0.6] }, y: scale },
				axes: [Object.assign(axisBase(), { label: whole, size: 34, grid: { show: false },
					splits: (u, i, a, b) => { const every = Math.max(1, Math.ceil(room * (b - a) / (u.bbox.width / devicePixelRatio))), out = []; for (let k = Math.max(0, Math.ceil(a)); k <= Math.min(n - 1, b); k++) if (k % every === 0) out.push(k); return out; },
					values: (u, splits) => splits.map(k => words[k]) }), valueAxis(kind, this.label(this.data.quantity), false)],
				series: [{}, { stroke: warm, width: 0, paths: () => null, points: { show: true, size: 6, fill: warm } }],
				focus: { alpha: 1 },
			},
			hooks: { drawAxes: [u => this.cells(u, cells, low, high, hue)], draw: [u => { if (this.data.budget !== null) hline(u, this.value(this.data.budget), "budget", css("--fail")); }] },
			tell: (u, idx) => `${this.data.labels[idx]}: max ${this.atLeast(this.data.at_least[idx])}${this.show(tops[idx])}${NARROW}${this.unit}, ${amount(this.data.ccdf.total[idx], "sample")}`,
		});
	}
	/* All answers laid over each other: cells are where edges of the answering line are; the lines
	   above and below are the levels before and after, their colour how many answers are there. */
	persistence(figure) { return this.panel(figure, 0); }
	enlarged(figure) { return this.panel(figure, 1); }
	panel(figure, which) {
		const p = this.data.persistence, d = this.answers[which], narrow = figure.querySelector(".canvas").clientWidth < 520;
		const vis = this.visible(), rows = vis.length, many = this.n > 1, div = this.data.div;
		if (!rows) return null;
		const edges = d.edges.map(v => v / div), from = d.start_ns / div, to = (d.start_ns + 10 * d.division_ns) / div;
		const x = edges.slice(0, -1).map((v, k) => (v + edges[k + 1]) / 2);
		/* From above: the event, then a row for each series; a row is 1 high and has its name above it. */
		const pitch = many ? 1.55 : 1.3, top = 0.9 + 0.55 + pitch * rows, level = r => [top - 0.9 - 0.55 - r * pitch - 1 + 0.1, top - 0.9 - 0.55 - r * pitch - 0.1];
		const most = Math.max(1, ...vis.map(i => p.count[i] + p.open[i][0] + p.open[i][1]));
		const hue = ramped(most), warm = isDark() ? "#f2a36b" : "#b8541c";
		this.bar(figure, most, "answers that took this path, logarithmic");
		figure.querySelector(".canvas").style.height = printing ? "" : `${Math.round(Math.min(120 + (many ? 96 : 130) * rows, 640))}px`;
		const text = ns => { const v = ns / div; return `${this.show(v)}${NARROW}${this.unit}`; };
		const splits = [...Array(11).keys()].map(k => (d.start_ns + k * d.division_ns) / div);
		return this.base(figure, {
			data: [x, x.map(() => null)],
			options: {
				scales: { x: { time: false, range: (u, a, b) => a === null || (a <= x[0] && b >= x[x.length - 1]) ? [from, to] : [Math.max(a, from), Math.min(b, to)] }, y: { range: [0, top] } },
				axes: [Object.assign(axisBase(), { label: `time since the event (${this.unit}), ${tick(d.division_ns / div)}${NARROW}${this.unit} per division`, size: 34,
					splits: (u, i, a, b) => { if (b - a > (to - from) * 0.55) return narrow ? splits.filter((_, k) => k % 2 === 1) : splits; const out = [], step = 10 ** Math.floor(Math.log10((b - a) / 4)); for (let v = Math.ceil(a / step) * step; v <= b; v += step) out.push(+v.toPrecision(9)); const skip = Math.ceil(out.length / 8); return out.filter((_, k) => k % skip === 0); },
					values: (u, s) => s.map(tick), filter: (u, s) => s }),
					Object.assign(axisBase(), { size: 46, grid: { show: false }, ticks: { show: false }, splits: () => [top - 0.45, ...vis.map((_, r) => (level(r)[0] + level(r)[1]) / 2)], values: () => ["event", ...vis.map(() => "answer")], filter: (u, s) => s })],
				series: [{}, { stroke: "transparent", width: 0, points: { show: false } }],
				focus: { alpha: 1 },
			},
			hooks: { drawAxes: [u => {
				const c = u.ctx, r = devicePixelRatio, b = u.bbox, X = v => u.valToPos(v, "x", true), Y = v => Math.round(u.valToPos(v, "y", true));
				c.save(); c.beginPath(); c.rect(b.left, b.top, b.width, b.height); c.clip();
				const line = (x0, y0, x1, y1) => { c.beginPath(); c.moveTo(x0, y0); c.lineTo(x1, y1); c.stroke(); };
				const low = Y(top - 0.8), high = Y(top - 0.12), at0 = Math.round(X(0)), left = b.left, right = b.left + b.width;
				c.strokeStyle = css("--ink"); c.lineWidth = 2 * r;
				const rises = vis.some(i => this.answers[0].rising[i].some(v => v) || p.open[i][0]), falls = vis.some(i => this.answers[0].falling[i].some(v => v) || p.open[i][1]);
				for (const up of [true, false]) {
					if (!(up ? rises : falls)) continue;
					line(left, up ? low : high, Math.max(at0, left), up ? low : high);
					line(Math.max(at0, left), up ? high : low, right, up ? high : low);
				}
				line(at0, low, at0, high);
				const thick = Math.max(3 * r, 2);
				vis.forEach((i, row) => {
					const [y0, y1] = level(row).map(Y), out = [d.outside[2 * i], d.outside[2 * i + 1]];
					const went = [d.rising[i], d.falling[i]], all = went.map((w, k) => w.reduce((a, v) => a + v, 0) + out[k][0] + out[k][1] + p.open[i][k]);
					let done = [out[0][0], out[1][0]];
					const rail = (x0, x1, y, n) => { if (n) { c.fillStyle = hue(n); c.fillRect(x0, y - thick / 2, x1 - x0, thick); } };
					/* Up to the first edge that is drawn, and between, the levels stay as they are: one stroke for each run. */
					let since = left;
					const flush = end => { rail(since, end, y1, done[0] + all[1] - done[1]); rail(since, end, y0, done[1] + all[0] - done[0]); since = end; };
					const bars = [];
					for (let k = 0; k + 1 < edges.length; k++) {
						const n = went[0][k] + went[1][k];
						if (!n) continue;
						const x0 = Math.floor(X(edges[k])), wide = Math.max(Math.ceil(X(edges[k + 1])) - x0, 2 * r);
						flush(x0);
						done = [done[0] + went[0][k], done[1] + went[1][k]];
						bars.push([x0, wide, n]);
					}
					flush(right);
					for (const [x0, wide, n] of bars) { c.fillStyle = hue(n); c.fillRect(x0, y1 - thick / 2, wide, y0 - y1 + thick); }
				});
				c.restore();
			}], draw: [u => {
				const c = u.ctx, r = devicePixelRatio, b = u.bbox, X = v => u.valToPos(v, "x", true), Y = v => Math.round(u.valToPos(v, "y", true));
				const say = (words, at, y, align, paint, bold) => {
					c.font = `${bold ? 600 : 400} ${11 * r}px ${css("--sans")}`; c.textAlign = align; c.textBaseline = "middle";
					c.fillStyle = paint; label(c, words, at, y);
				};
				c.save();
				vis.forEach((i, row) => {
					const [y0, y1] = level(row).map(Y), middle = (y0 + y1) / 2;
					if (many) say(`${this.data.labels[i]}: ${amount(p.count[i], "answer")}`, b.left + 4 * r, y1 - 11 * r, "left", css("--ink"), true);
					const marks = [[p.min[i], "min"], [p.max[i], "max"]].filter(m => m[0] !== null);
					let last = null;
					for (const [value, name] of marks) {
						const v = value / div;
						if (v < u.scales.x.min || v > u.scales.x.max) continue;
						const px = X(v), shown = value < this.data.max[i] ? "max shown" : "max";
						const words = `${name === "min" ? name : this.data.at_least[i] ? "slowest answer" : shown} ${text(value)}`;
						c.strokeStyle = warm; c.lineWidth = r; c.setLineDash([3 * r, 3 * r]);
						c.beginPath(); c.moveTo(px, y1 - 6 * r); c.lineTo(px, y0 + 6 * r); c.stroke();
						c.font = `600 ${11 * r}px ${css("--sans")}`;
						const wide = c.measureText(words).width + 8 * r;
						const before = name === "min" ? px - wide > b.left : px + wide > b.left + b.width;
						/* Where min has no room on its left, min and max are below each other. */
						if (name === "min") last = before ? null : px;
						const y = last === null ? middle : middle + (name === "min" ? -7 : 8) * r;
						say(words, px + (before ? -6 : 6) * r, y, before ? "right" : "left", warm, true);
					}
					const beyond = d.outside[2 * i][1] + d.outside[2 * i + 1][1], open = p.open[i][0] + p.open[i][1];
					const words = [beyond ? `${group(String(beyond))} beyond →` : "", open ? `${group(String(open))} unanswered` : ""].filter(t => t).join(", ");
					if (words) say(words, b.left + b.width - 4 * r, y0 - 11 * r, "right", css("--fail"), true);
				});
				c.restore();
			}] },
			tell: (u, idx) => {
				const k = binAt(u, edges, idx);
				return `${between(edges[k], edges[k + 1], this.show)}${NARROW}${this.unit}: ` + few(vis.map(i => `${many ? this.data.labels[i] + " " : ""}${amount(d.rising[i][k] + d.falling[i][k], "answer")}`), 4);
			},
		});
	}
	/* The waveforms of an analogue capture: two fields of cells, the event's line above. */
	waves0(figure) { return this.waves(figure, 0); }
	waves1(figure) { return this.waves(figure, 1); }
	waves(figure, which) {
		const pair = this.recorded[which], div = this.data.div, w = pair.event, gap = 0.12;
		const from = w.start_ns / div, to = (w.start_ns + 10 * w.division_ns) / div;
		const places = [[pair.event, 1 + gap, 2 + gap], [pair.answer, 0, 1]];
		const most = Math.max(1, ...places.map(p => p[0].cells.reduce((a, b) => Math.max(a, b), 0))), hue = ramped(most);
		this.bar(figure, most, `points of the waveforms of ${group(String(w.events))} events, logarithmic`);
		const volts = p => { const lo = p[0].low_uv / 1e6, hi = p[0].high_uv / 1e6, step = [1, 2, 5, 10].map(m => m * 10 ** Math.floor(Math.log10((hi - lo) / 4))).find(s => (hi - lo) / s <= 5) || hi - lo; const out = []; for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) out.push([p[1] + (v - lo) / (hi - lo), +v.toPrecision(6)]); return out; };
		const marks = places.flatMap(volts).sort((a, b) => a[0] - b[0]), x = Array.from({ length: w.columns }, (_, k) => from + (to - from) * (k + 0.5) / w.columns);
		return this.base(figure, {
			data: [x, x.map(() => null)],
			options: {
				scales: { x: { time: false, range: (u, a, b) => a === null || (a <= x[0] && b >= x[x.length - 1]) ? [from, to] : [Math.max(a, from), Math.min(b, to)] }, y: { range: [0, 2 + gap] } },
				axes: [Object.assign(axisBase(), { label: `time since the event (${this.unit}), ${tick(w.division_ns / div)}${NARROW}${this.unit} per division`, size: 34,
					splits: (u, i, a, b) => [...Array(11).keys()].map(k => (w.start_ns + k * w.division_ns) / div).filter((v, k) => v >= a && v <= b && (u.bbox.width / devicePixelRatio > 460 || k % 2)), values: (u, s) => s.map(tick), filter: (u, s) => s }),
					Object.assign(axisBase(), { label: "answer (V)  ·  event (V)", size: 46, splits: () => marks.map(m => m[0]), values: () => marks.map(m => tick(m[1])), filter: (u, s) => s })],
				series: [{}, { stroke: "transparent", width: 0, points: { show: false } }],
				focus: { alpha: 1 },
			},
			hooks: { drawAxes: [u => {
				const c = u.ctx, b = u.bbox, X = v => Math.floor(u.valToPos(v, "x", true)), Y = v => Math.round(u.valToPos(v, "y", true));
				c.save(); c.beginPath(); c.rect(b.left, b.top, b.width, b.height); c.clip();
				for (const [one, low, high] of places) one.cells.forEach((n, k) => {
					if (!n) return;
					const col = Math.floor(k / one.levels), row = k % one.levels, x0 = X(from + (to - from) * col / one.columns), x1 = X(from + (to - from) * (col + 1) / one.columns);
					const y0 = Y(low + (high - low) * row / one.levels), y1 = Y(low + (high - low) * (row + 1) / one.levels);
					c.fillStyle = hue(n); c.fillRect(x0, y1, Math.max(x1 - x0, 1), Math.max(y0 - y1, 1));
				});
				c.restore();
			}] },
			tell: (u, idx) => `${this.show(x[idx])}${NARROW}${this.unit}`,
		});
	}
	/* A line or few below the picture over time, on the same axis of time. */
	strip(figure) {
		const s = figure.strip, t = this.data.time, number = Math.max(...t.high.map(r => r.length)), n = s.labels.length;
		const ends = [(t.start_ns + t.bin_ns * 0.5) / 1e9, (t.start_ns + t.bin_ns * (number - 0.5)) / 1e9];
		/* Each value holds from the record before to its own; the axis begins and ends as that above. */
		const inside = s.x.map((v, k) => k).filter(k => s.x[k] > ends[0] && s.x[k] < ends[1]);
		const after = s.x.findIndex(v => v >= ends[1]), at = k => y => k === undefined || k < 0 ? null : y[k];
		const x = [ends[0], ...inside.map(k => s.x[k]), ends[1]];
		const rows = s.y.map(y => [at(inside[0] ?? after)(y), ...inside.map(k => y[k]), at(after < 0 ? inside[inside.length - 1] : after)(y)]);
		const all = rows.flat().filter(v => v !== null);
		const lo = all.reduce((a, b) => Math.min(a, b), Infinity), hi = all.reduce((a, b) => Math.max(a, b), -Infinity);
		const low = hi > 0 && lo > 0.7 * hi ? lo - (hi - lo) * 0.3 - hi * 0.02 : Math.min(0, lo);
		if (n > 1 && !figure.querySelector(".keys")) figure.querySelector("h4").append(el("span", "keys"));
		const keysBox = figure.querySelector(".keys");
		if (keysBox) keysBox.replaceChildren(...s.labels.map((text, i) => { const k = el("span"), w = el("span", "swatch"); w.style.background = colour(i, n); k.append(w, text); return k; }));
		return this.base(figure, {
			data: [x, ...rows],
			options: {
				scales: { x: { time: false, range: (u, a, b) => a === null ? [0, 1] : a === b ? [a - 0.5, b + 0.5] : [a, b] }, y: { range: [low, hi > low ? hi + (hi - low) * 0.1 : low + 1] } },
				axes: [Object.assign(axisBase(), { size: 22, values: (u, v) => v.map(tick) }), Object.assign(axisBase(), { size: 52 + 18, space: 24, values: (u, v) => v.map(tick) })],
				series: [{}, ...s.labels.map((_, i) => ({ stroke: colour(i, n), width: 1.4, points: { show: false }, paths: uPlot.paths.stepped({ align: -1 }) }))],
				focus: { alpha: 1 },
			},
			tell: (u, idx) => [seconds(x[idx]), ...s.labels.map((text, i) => [text, rows[i][idx]]).filter((p, i) => n <= 4 || i + 1 === (u.focused || 1)).map(([text, v]) => `${n > 1 ? text + " " : ""}${show(v, true, s.unit)}${NARROW}${s.unit}`)].join(" · "),
		});
	}
	dots(i, more) { return Object.assign({ stroke: colour(i, this.n), width: 0, paths: () => null, points: { show: true, size: 4.5, width: 1, fill: colour(i, this.n, 0.75) } }, more); }
	/* The samples around the largest of one series. */
	around(figure) {
		const there = this.visible().filter(i => this.window.around[i]);
		const i = there.includes(this.chosen) ? this.chosen : there.includes(this.worst) ? this.worst : there[0];
		const choice = figure.querySelector("select");
		if (choice) choice.value = String(i);
		if (i === undefined) return null;
		const w = this.window.around[i], middle = w.due_ns[w.at], grid = this.data.grid, loop = this.data.window.loops;
		const x = grid ? w.due_ns.map(v => (v - middle) / 1e6) : loop ? w.due_ns.map(v => (v - w.due_ns[0]) / 1e3) : w.index.map(v => v - w.index[w.at]), y = w.value.map(v => this.value(v));
		const lo = y.reduce((a, b) => Math.min(a, b)), hi = y.reduce((a, b) => Math.max(a, b));
		const { kind, scale } = spread(lo, hi, this.linear.around);
		return this.base(figure, {
			data: [x, y],
			options: {
				scales: { x: { time: false, range: (u, a, b) => { const room = (b - a) * 0.015 || 0.5; return a === null ? [0, 1] : a <= x[0] && b >= x[x.length - 1] ? [x[0] - room, x[x.length - 1] + room] : [a, b]; } }, y: scale },
				axes: [Object.assign(axisBase(), { label: grid ? "due time, relative to the maximum (ms)" : loop ? "time since the loop's first sample (µs)" : "sample number, relative to the maximum", size: 34, values: (u, s) => s.map(tick) }), valueAxis(kind, this.label(this.data.quantity), false)],
				series: [{}, this.dots(i)],
				focus: { alpha: 1 },
			},
			hooks: { draw: [u => {
				if (this.data.budget !== null) hline(u, this.value(this.data.budget), "budget", css("--fail"));
				this.second(u);
				vline(u, x[w.at], `${this.largest(y[w.at])}${NARROW}${this.unit} at ${seconds(middle / 1e9)}` + (this.n > 1 ? `, ${this.data.labels[i]}` : ""), css("--ink"), [2, 3], 0);
			}] },
			tell: (u, idx) => (grid ? `${this.show(x[idx])}${NARROW}ms · due at ${group((w.due_ns[idx] / 1e6).toFixed(3))}${NARROW}ms · ` : "") + `sample ${group(String(w.index[idx]))}: ${this.show(y[idx])}${NARROW}${this.unit}`,
		});
	}
	begin(figure) {
		const vis = this.ordered().filter(i => this.window.begin[i] && this.window.begin[i].due_ns.length);
		if (!vis.length) return null;
		const grid = this.data.grid, tables = vis.map(i => { const w = this.window.begin[i]; return [w.due_ns.map((v, k) => [grid ? v / 1e6 : w.index[k], this.value(w.value[k])])]; });
		const x = [...new Set(tables.flatMap(t => t[0].map(p => p[0])))].sort((a, b) => a - b);
		const place = new Map(x.map((v, k) => [v, k]));
		let lo = Infinity, hi = -Infinity;
		const ys = tables.map(t => { const row = new Array(x.length).fill(null); for (const [at, v] of t[0]) { row[place.get(at)] = v; lo = Math.min(lo, v); hi = Math.max(hi, v); } return row; });
		const { kind, scale } = spread(lo, hi, this.linear.begin);
		return this.base(figure, {
			data: [x, ...ys],
			options: {
				scales: { x: { time: false, range: (u, a, b) => { const room = (x[x.length - 1] - x[0]) * 0.015 || 0.5; return a === null || a <= x[0] && b >= x[x.length - 1] ? [x[0] - room, x[x.length - 1] + room] : [a, b]; } }, y: scale },
				axes: [Object.assign(axisBase(), { label: grid ? "due time since the start of the step (ms)" : "sample", size: 34, values: (u, s) => s.map(tick) }), valueAxis(kind, this.label(this.data.quantity), false)],
				series: [{}, ...vis.map(i => this.dots(i))],
			},
			hooks: { draw: [u => { if (this.data.budget !== null) hline(u, this.value(this.data.budget), "budget", css("--fail")); }] },
			tell: (u, idx) => { const s = u.focused || 1 + ys.findIndex(r => r[idx] !== null); return s < 1 || ys[s - 1] === undefined || ys[s - 1][idx] === null ? "" : (grid ? `due at ${show(x[idx])}${NARROW}ms: ` : `sample ${x[idx]}: `) + `${this.show(ys[s - 1][idx])}${NARROW}${this.unit}` + (this.n > 1 ? `, ${this.data.labels[vis[s - 1]]}` : ""); },
		});
	}
	/* What a picture has around it. */
	furnish(figure, title, caption) {
		const head = el("div", "head"), below = el("figcaption");
		head.append(el("h4", "", title), el("span", "readout"));
		below.append(el("span", "says", caption), el("span", "tools"));
		figure.append(head, el("div", "canvas"), below);
	}
	tools(figure) {
		const box = figure.querySelector(".tools");
		const link = el("button", "", "Download the data (CSV)");
		link.type = "button";
		link.addEventListener("click", () => {
			const a = el("a");
			a.href = URL.createObjectURL(new Blob([this.csv(figure.dataset.kind, figure)], { type: "text/csv" }));
			a.download = `${this.data.file}-${figure.strip ? figure.strip.title : figure.dataset.kind}.csv`;
			a.click();
			setTimeout(() => URL.revokeObjectURL(a.href), 1000);
		});
		box.append(link);
		const kind = figure.dataset.kind;
		if (!["histogram", "ccdf", "strip", "persistence", "enlarged", "waves0", "waves1"].includes(kind)) {
			const b = el("button", "", "Linear scale");
			b.type = "button";
			b.addEventListener("click", () => { this.linear[kind] = !this.linear[kind]; b.textContent = this.linear[kind] ? "Logarithmic scale" : "Linear scale"; this.draw(); });
			figure.scales = el("span");
			figure.scales.append(" · ", b);
			box.append(figure.scales);
		}
		if (kind === "around" && this.n > 1) {
			const choice = el("select");
			choice.setAttribute("aria-label", "Series whose maximum is shown");
			this.data.labels.forEach((text, i) => { if (this.window.around[i]) { const o = el("option", "", text); o.value = String(i); choice.append(o); } });
			choice.addEventListener("change", () => { this.chosen = Number(choice.value); this.on[this.chosen] = true; this.redraw(); });
			box.append(" · ", choice);
		}
	}
	csv(kind, figure) {
		const d = this.data, rows = [];
		/* A cell that a spreadsheet could take for a formula is led by an apostrophe. */
		const cell = v => { let s = v === null || v === undefined ? "" : String(v); if (typeof v === "string" && /^[=+\-@\t\r]/.test(s)) s = "'" + s; return /[",\n\r]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s; };
		const unit = d.raw_unit;
		if (kind === "strip") {
			const s = figure.strip;
			rows.push(["until (s)", ...s.labels.map(l => `${l} (${s.unit})`)]);
			s.x.forEach((v, k) => rows.push([v, ...s.y.map(y => y[k])]));
		} else if (kind === "heat") {
			const h = d.heat, n = h.low.length, apart = h.maps.length === this.n;
			rows.push(["from (ns)", "below (ns)", `at least (${unit})`, `at most (${unit})`, ...(apart ? d.labels : ["all series"])]);
			for (let k = 0; k < h.columns * n; k++) if (this.maps.some(m => m[k])) {
				const from = h.start_ns + Math.floor(k / n) * h.bin_ns;
				rows.push([from, from + h.bin_ns, h.low[k % n], h.high[k % n], ...this.maps.map(m => m[k])]);
			}
		} else if (kind === "persistence" || kind === "enlarged") {
			const p = this.answers[kind === "enlarged" ? 1 : 0];
			rows.push([`from (${unit})`, `below (${unit})`, ...d.labels.flatMap(l => [`${l}: rising`, `${l}: falling`])]);
			for (let k = 0; k + 1 < p.edges.length; k++) rows.push([p.edges[k], p.edges[k + 1], ...d.labels.flatMap((_, i) => [p.rising[i][k], p.falling[i][k]])]);
		} else if (kind === "waves0" || kind === "waves1") {
			rows.push(["line", "from (ns)", "below (ns)", "at least (V)", "below (V)", "points"]);
			for (const [name, w] of Object.entries(this.recorded[kind === "waves1" ? 1 : 0])) w.cells.forEach((n, k) => {
				const col = Math.floor(k / w.levels), row = k % w.levels, t = w.division_ns * 10 / w.columns, v = (w.high_uv - w.low_uv) / 1e6 / w.levels;
				if (n) rows.push([name, w.start_ns + col * t, w.start_ns + (col + 1) * t, w.low_uv / 1e6 + row * v, w.low_uv / 1e6 + (row + 1) * v, n]);
			});
		} else if (kind === "against") {
			const a = d.against;
			rows.push(["series", a.label, `min (${unit})`, `median (${unit})`, `99 % (${unit})`, `max (${unit})`, "max is a lower limit"]);
			a.lines.forEach((text, i) => a.x[i].forEach((v, k) => rows.push([text, v, a.low[i][k], a.middle[i][k], a.tail[i][k], a.high[i][k], a.at_least[i][k] ? "yes" : "no"])));
		} else if (kind === "around" || kind === "begin") {
			/* Without a time grid, samples are due at no time. */
			rows.push(["series", "sample", d.grid === false ? "taken about (ns)" : "due (ns)", `${d.quantity} (${unit})`]);
			this.window[kind].forEach((w, i) => { if (w) w.due_ns.forEach((due, k) => rows.push([d.labels[i], w.index[k], due, w.value[k]])); });
		} else if (kind === "histogram" || kind === "series") {
			rows.push([`from (${unit})`, `below (${unit})`, ...d.labels]);
			for (let k = 0; k + 1 < d.histogram.edges.length; k++) rows.push([d.histogram.edges[k], d.histogram.edges[k + 1], ...d.histogram.counts.map(c => c[k])]);
		} else if (kind === "ccdf") {
			const c = d.ccdf, extra = d.labels.map((_, i) => i).filter(i => c.corrected[i]);
			rows.push([`at least (${unit})`, ...d.labels.map(l => l + ": samples"), ...extra.map(i => d.labels[i] + ": corrected")]);
			c.x.forEach((v, k) => rows.push([v, ...c.reached.map(r => k < r.length ? r[k] : 0), ...extra.map(i => k < c.corrected[i].length ? c.corrected[i][k] : 0)]));
		} else {
			const t = d.time;
			const lower = t.floor ? [] : [["min", t.low], ["median", t.middle]], figures = [...lower, ["max", t.high]];
			rows.push(["from (ns)", ...(t.floor ? [`min of all (${unit})`] : []), ...d.labels.flatMap(l => [...figures.map(([name]) => `${l}: ${name} (${unit})`), `${l}: missed`, `${l}: lost`])]);
			const at = new Map(t.marks.map(m => [`${m[0]} ${m[1]} ${m[2]}`, m[3]]));
			const number = Math.max(...t.high.map(r => r.length));
			for (let k = 0; k < number; k++) rows.push([t.start_ns + k * t.bin_ns, ...(t.floor ? [t.floor[k]] : []), ...d.labels.flatMap((_, i) => [...figures.map(([, table]) => table[i][k]), at.get(`${k} ${i} missed`) || 0, at.get(`${k} ${i} lost`) || 0])]);
		}
		return rows.map(r => r.map(cell).join(",")).join("\r\n") + "\r\n";
	}
}

const groups = [];
const paint = () => {
	for (const swatch of document.querySelectorAll("[data-swatch]")) {
		const [i, n] = swatch.dataset.swatch.split(" ").map(Number);
		swatch.style.background = colour(i, n);
	}
};
const again = () => { paint(); for (const g of groups) g.redraw(); };
preferred.addEventListener("change", again);
let waiting = 0;
new ResizeObserver(() => { clearTimeout(waiting); waiting = setTimeout(() => { for (const g of groups) g.resize(); }, 60); }).observe(document.body);
/* What is folded stays so on paper: the answer, the summary and a row for each step. */
let shown = "";
window.addEventListener("beforeprint", () => { printing = true; shown = root.dataset.theme || ""; root.dataset.theme = "light"; again(); });
window.addEventListener("afterprint", () => { printing = false; if (shown) root.dataset.theme = shown; else delete root.dataset.theme; again(); });

/* --- the pictures of a folded part are drawn when it is opened --- */
/* The page checks itself: the data offered add up, and an open part has every picture. */
const sums = (file, d) => {
	const kept = d.ccdf.total, sum = list => list.reduce((a, b) => a + b, 0);
	d.histogram.counts.forEach((c, i) => { if (sum(c) !== kept[i]) problems.push(`${file}: histogram of ${d.labels[i]} has ${sum(c)} of ${kept[i]}`); });
	const maps = d.heat ? d.heat.maps : [], all = d.time ? sum(d.time.samples) : 0, drawn = maps.reduce((a, m) => a + sum(m), 0);
	if (maps.length && drawn !== all) problems.push(`${file}: heat map has ${drawn} of ${all}`);
	for (const p of d.persistence ? d.persistence.panels : []) kept.forEach((n, i) => { const got = sum([...p.rising[i], ...p.falling[i], ...p.outside[2 * i], ...p.outside[2 * i + 1]]); if (got !== n) problems.push(`${file}: answers of ${d.labels[i]} are ${got} of ${n}`); });
	if (d.window) d.window.around.forEach((w, i) => { if (w && (w.value[w.at] !== Math.max(...w.value) || w.value[w.at] > d.max[i])) problems.push(`${file}: the window of ${d.labels[i]} is not around its largest`); });
};
const verify = g => {
	const figures = g.box.querySelectorAll("figure[data-kind]"), made = g.box.querySelectorAll("canvas").length;
	if (made !== figures.length) problems.push(`${g.data.file}: ${made} of ${figures.length} pictures`);
	for (const figure of figures) if (g.csv(figure.dataset.kind, figure).length < 10) problems.push("empty data");
};
let data = null;
const due = new Set(document.querySelectorAll("[data-group]"));
const wake = () => {
	if (!data) return;
	const before = due.size;
	for (const box of due) {
		if (box.closest("details:not([open])")) continue;
		due.delete(box);
		try { const g = new Group(box, data[box.dataset.group]); groups.push(g); verify(g); }
		catch (e) { problems.push(`${box.dataset.group}: ${e.message}`); }
	}
	if (due.size !== before) report();
};
document.addEventListener("toggle", wake, true);
/* The data of all pictures: JSON, compressed by zlib, in base64. Places and times of samples are
   differences, the first one the value itself. */
const inflated = async () => {
	if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream");
	const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), c => c.charCodeAt(0));
	const read = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
	const windows = Object.values(read).flatMap(d => d.window ? [...d.window.around, ...d.window.begin] : []);
	for (const w of windows) if (w) for (const name of ["index", "due_ns"]) { let sum = 0; w[name] = w[name].map(v => sum += v); }
	return read;
};
const failed = error => {
	problems.push(error.message);
	for (const box of due) box.prepend(el("p", "noscript", `No pictures: ${error.message}. Open the report in Chrome 80, Firefox 113, Safari 16.4 or a later version. All tables are complete.`));
};

/* --- finding the way --- */
const fold = (box, open) => { for (const d of box.querySelectorAll("details")) if (!d.classList.contains("hidden")) d.open = open; wake(); };
/* A link opens what it points into; #all opens everything. */
const go = () => {
	const name = decodeURIComponent(location.hash.slice(1));
	if (name === "all") { fold(document, true); return; }
	const target = name && document.getElementById(name);
	if (!target) return;
	for (let at = target; at; at = at.parentElement) {
		if (at.tagName === "DETAILS") at.open = true;
		if (at.classList.contains("hidden")) for (const filter of document.querySelectorAll(".filter")) {
			for (const field of filter.querySelectorAll("input, select")) { field.value = field.type === "checkbox" ? field.value : ""; field.checked = false; }
			filter.dispatchEvent(new Event("input"));
		}
	}
	wake();
	target.scrollIntoView({ behavior: "instant" });
};
window.addEventListener("hashchange", go);
const menu = document.getElementById("menu"), sidebar = document.getElementById("contents");
const toggled = open => { sidebar.classList.toggle("open", open); menu.setAttribute("aria-expanded", String(open)); };
menu.addEventListener("click", () => { toggled(!sidebar.classList.contains("open")); });
sidebar.addEventListener("click", e => { if (e.target.closest("a")) { toggled(false); if (e.target.hash === location.hash) go(); } });
/* The sidebar marks the last of its targets that has passed the top of the window. */
const links = [...sidebar.querySelectorAll("li > a")].map(a => [a, document.getElementById(a.hash.slice(1))]).filter(pair => pair[1]);
let here = null;
const spy = () => {
	document.documentElement.classList.toggle("top", scrollY < 40);
	let found = links[0];
	for (const pair of links) if (pair[1].getClientRects().length && pair[1].getBoundingClientRect().top < 120) found = pair;
	if (!found || found[0] === here) return;
	if (here) here.removeAttribute("aria-current");
	for (const li of sidebar.querySelectorAll("li.here")) li.classList.remove("here");
	here = found[0];
	here.setAttribute("aria-current", "location");
	for (let li = here.closest("li"); li; li = li.parentElement.closest("li")) li.classList.add("here");
	const box = sidebar.getBoundingClientRect(), at = here.getBoundingClientRect();
	if (at.top < box.top + 40 || at.bottom > box.bottom - 40) sidebar.scrollTop += at.top - box.top - box.height / 2;
};
let spying = false;
window.addEventListener("scroll", () => { if (!spying) { spying = true; requestAnimationFrame(() => { spying = false; spy(); }); } }, { passive: true });

/* --- filter and search --- */
const words = new Map();
const text = step => { if (!words.has(step)) words.set(step, step.textContent.toLowerCase()); return words.get(step); };
for (const filter of document.querySelectorAll(".filter")) {
	const part = filter.closest(".steps"), steps = [...part.querySelectorAll("details.step")], chapters = [...part.querySelectorAll("section.chapter")];
	const field = name => filter.querySelector(`[name=${name}]`), value = name => field(name) ? field(name).value : "", set = name => field(name).checked;
	const search = filter.querySelector("input[type=search]"), told = filter.querySelector("output");
	const apply = () => {
		const wanted = search.value.toLowerCase().split(/\s+/).filter(w => w);
		let number = 0;
		for (const step of steps) {
			const chapter = step.closest("section.chapter");
			const fits = (!value("chapter") || chapter.id === value("chapter")) && (!value("load") || step.dataset.load === value("load"))
				&& (!set("failed") || "failed" in step.dataset) && (!set("observed") || "observed" in step.dataset) && wanted.every(w => text(step).includes(w));
			step.classList.toggle("hidden", !fits);
			if (fits) number++;
		}
		for (const chapter of chapters) chapter.classList.toggle("hidden", !chapter.querySelector("details.step:not(.hidden)"));
		const all = amount(steps.length, "step");
		told.textContent = number === steps.length ? all : `${number} of ${all}`;
	};
	filter.addEventListener("input", apply);
	for (const b of filter.querySelectorAll("[data-fold]")) b.addEventListener("click", () => { fold(part, b.dataset.fold === "open"); });
	filter.hidden = false;
	apply();
}
document.addEventListener("keydown", e => {
	if (e.key === "Escape") toggled(false);
	if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
	const box = [...document.querySelectorAll(".filter input[type=search]")].find(one => one.getClientRects().length);
	if (box) { e.preventDefault(); box.focus(); }
});
for (const b of document.querySelectorAll(".copy")) {
	if (!navigator.clipboard) break;
	b.hidden = false;
	b.addEventListener("click", async () => {
		await navigator.clipboard.writeText(b.nextElementSibling.textContent);
		b.textContent = "Copied";
		setTimeout(() => { b.textContent = "Copy"; }, 1500);
	});
}

root.classList.add("js");
paint();
go();
spy();
inflated().then(found => {
	data = found;
	for (const [name, one] of Object.entries(data)) sums(one.file || name, one);
	wake();
}, failed).catch(error => problems.push(error.message)).finally(report);
})();
