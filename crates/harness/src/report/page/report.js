"use strict";
(() => {
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  // Sorting: by the figure where a cell has one, else by its words; what has neither stays at the end.
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === "") return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    return cell.textContent.trim().toLowerCase();
  };
  const order = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].map((row) => [key(row, column), row]);
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          return down ? order(b, a) : order(a, b);
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // Charts: those in sight first, anew when colours or width change.
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const light = ["#0b5fa5", "#c2410c", "#0a7a4a", "#7c3aad", "#a16207", "#b0246a", "#0f7490", "#57534e"];
  const bright = ["#6db3f2", "#ff9f5a", "#5fd39a", "#c79bf5", "#e3c04e", "#f58ac0", "#5fd0e6", "#c7c1bb"];
  const drawn = new Map();
  const short = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size >= 1e9) return +(value / 1e9).toPrecision(4) + "G";
    if (size >= 1e6) return +(value / 1e6).toPrecision(4) + "M";
    if (size >= 1e4) return +(value / 1e3).toPrecision(4) + "k";
    return String(+value.toPrecision(4));
  };
  const draw = (box) => {
    drawn.get(box)?.destroy();
    const plot = plots[Number(box.dataset.plot)];
    const colours = dark() ? bright : light;
    const ink = getComputedStyle(document.body).color;
    const grid = dark() ? "#31373d" : "#e3e6e9";
    const axis = (more) => ({ stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif", ...more });
    const data = uPlot.join(plot.curves.map((curve) => [curve.x, curve.y]));
    const xs = data[0];
    // Powers and doublings of a few points: each point is its own tick.
    const few = plot.log && xs.length <= 12;
    const scale = plot.log ? { distr: 3, log: 10 } : {};
    const options = {
      width: Math.max(box.clientWidth, 200),
      height: 230,
      scales: { x: { time: false, ...scale }, y: plot.log ? scale : { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [
        axis({ label: plot.across, labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 34, ...(few ? { splits: () => xs, filter: (_, splits) => splits } : {}), values: (_, splits) => splits.map(short) }),
        axis({ label: plot.unit, labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 52, values: (_, splits) => splits.map(short) }),
      ],
      series: [
        { label: plot.across, value: (_, value) => short(value) },
        ...plot.curves.map((curve) => ({
          label: curve.name,
          stroke: colours[curve.nth % colours.length],
          width: 2,
          dash: curve.limit ? [6, 4] : undefined,
          spanGaps: true,
          points: { show: plot.log, size: 5 },
          value: (_, value) => short(value),
        })),
      ],
      legend: { live: true },
    };
    box.replaceChildren();
    drawn.set(box, new uPlot(options, data, box));
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "400px" });
  const boxes = [...document.querySelectorAll(".plot")];
  for (const box of boxes) seen.observe(box);
  // The rest one after the other, so that a page that is searched, saved or printed has them all.
  const next = () => {
    const box = boxes.find((box) => !drawn.has(box));
    if (!box) return;
    seen.unobserve(box);
    draw(box);
    setTimeout(next, 20);
  };
  setTimeout(next, 300);
  let pending = 0;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      for (const [box, chart] of drawn) chart.setSize({ width: Math.max(box.clientWidth, 200), height: 230 });
    }, 100);
  });
  const redraw = () => { for (const box of [...drawn.keys()]) draw(box); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    redraw();
  });
  addEventListener("beforeprint", () => { for (const box of boxes) if (!drawn.has(box)) draw(box); });
})();
