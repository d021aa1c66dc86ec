(() => {
  "use strict";
  const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim().replace(/(\d),(?=\d{3})/g, "$1") : cell.dataset.value;
  };
  const compare = (a, b) => {
    const x = Number(a), y = Number(b);
    return Number.isNaN(x) || Number.isNaN(y) ? words.compare(a, b) : x - y;
  };
  const sort = (table, head, direction) => {
    const column = head.cellIndex, sign = direction === "ascending" ? 1 : -1;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    for (const body of table.tBodies) {
      const keyed = Array.from(body.rows, (row) => [valueOf(row, column), row]);
      // What has no value stays at the end, whichever way the rest is sorted.
      keyed.sort(([a], [b]) => (a === "") - (b === "") || (a === "" ? 0 : sign * compare(a, b)));
      body.append(...keyed.map(([, row]) => row));
    }
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    for (const head of table.tHead.rows[0].cells) {
      if ("plain" in head.dataset) continue;
      const button = Object.assign(document.createElement("button"), { type: "button", title: head.title });
      button.append(...head.childNodes);
      Object.assign(button.dataset, { column: head.dataset.name ?? "", first: head.dataset.first });
      head.append(button);
      head.removeAttribute("title");
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort"), turned = now === "ascending" ? "descending" : "ascending";
        sort(table, head, now ? turned : button.dataset.first);
      });
    }
  }

  for (const tools of document.querySelectorAll("[data-filter-for]")) {
    const lists = tools.dataset.filterFor.split(" ").map((id) => document.getElementById(id));
    const search = tools.querySelector("[data-search]"), count = tools.querySelector("[data-count]");
    // A filter is a field of one value, or a fold of marks of which an entry has to fit any.
    const filters = [...tools.querySelectorAll("[data-key]")];
    const optionsOf = (one) => [...(one.tagName === "SELECT" ? one.options : one.querySelectorAll("input"))];
    const chosenOf = (one) => optionsOf(one).filter((option) => option.value && (option.selected || option.checked));
    const bars = lists.map((list) => document.querySelector(`[data-bars="${list.id}"]`)).find(Boolean);
    const texts = new Map();
    const textOf = (entry) => {
      if (!texts.has(entry)) {
        const more = window.itemWords ? window.itemWords[entry.dataset.place] : "";
        const cells = [...entry.children].filter((one) => !one.classList.contains("c-tally"));
        texts.set(entry, `${cells.map((one) => one.textContent).join(" ").toLowerCase()} ${more}`);
      }
      return texts.get(entry);
    };
    // Words that the list does not show stand in a file of their own, which is loaded when somebody searches.
    const load = () => {
      if (!("words" in tools.dataset)) return;
      const script = Object.assign(document.createElement("script"), { src: tools.dataset.words });
      delete tools.dataset.words;
      script.addEventListener("load", () => (texts.clear(), apply()));
      document.head.append(script);
    };
    const bare = (word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "") || word;
    const holds = (entry, one, value) => {
      if ("zeroAt" in one.dataset) return entry.dataset.marks[value] === "0";
      const has = entry.dataset[one.dataset.key];
      return "oneOf" in one.dataset ? has.split(" ").includes(value) : has === value;
    };
    // A choice is kept in the address by its words, which stay the same when another model joins.
    const wordsOf = (option) => (option.tagName === "OPTION" ? option : option.parentNode).textContent.trim();
    const keep = () => {
      if (!("kept" in tools.dataset)) return;
      const kept = new URLSearchParams();
      if (search.value) kept.set("q", search.value);
      for (const one of filters) for (const option of chosenOf(one)) kept.append(one.dataset.key, wordsOf(option));
      history.replaceState(null, "", `#${kept}`);
    };
    const restore = () => {
      if (!("kept" in tools.dataset)) return;
      const kept = new URLSearchParams(location.hash.slice(1));
      search.value = kept.get("q") ?? "";
      for (const one of filters) {
        const meant = kept.getAll(one.dataset.key);
        for (const option of optionsOf(one)) {
          if (option.tagName !== "OPTION") option.checked = meant.includes(wordsOf(option));
          else option.selected = meant.length ? meant.includes(wordsOf(option)) : !option.value;
        }
      }
    };
    const draw = (entries) => {
      const counts = [...bars.querySelectorAll("li")].map((line) => {
        const marks = entries.map((entry) => entry.dataset.marks[line.dataset.model]).filter((mark) => mark !== "-");
        return [line, marks.filter((mark) => mark === "1").length, marks.length];
      });
      counts.sort(([, right, judged], [, others, theirs]) => others / (theirs || 1) - right / (judged || 1));
      for (const [line, right, judged] of counts) {
        line.querySelector("rect").setAttribute("width", `${(100 * right) / (judged || 1)}%`);
        line.lastElementChild.textContent = `${right} of ${judged}`;
        line.parentNode.append(line);
      }
    };
    const apply = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean).map(bare);
      if (wanted.length) load();
      const entries = lists.flatMap((list) => [...list.children]);
      const wishes = filters.map((one) => [one, chosenOf(one).map((option) => option.value)]);
      for (const [one, values] of wishes) {
        const place = one.querySelector("[data-chosen]");
        if (place) place.textContent = values.length ? `: ${chosenOf(one).map(wordsOf).join(", ")}` : "";
      }
      const active = wishes.filter(([, values]) => values.length);
      let shown = 0;
      for (const entry of entries) {
        const fits = active.every(([one, values]) => values.some((value) => holds(entry, one, value)));
        entry.hidden = !(fits && wanted.every((word) => textOf(entry).includes(word)));
        shown += !entry.hidden;
      }
      if (bars) {
        bars.hidden = !shown || shown === entries.length;
        if (!bars.hidden) draw(entries.filter((entry) => !entry.hidden));
      }
      count.textContent = shown === entries.length ? "" : `${shown / lists.length} of ${entries.length / lists.length}`;
    };
    const change = () => (apply(), keep());
    tools.addEventListener("keydown", (event) => {
      const fold = event.key === "Escape" && event.target.closest(".choice");
      if (fold) fold.open = false;
    });
    document.addEventListener("click", (event) => {
      for (const fold of tools.querySelectorAll(".choice[open]")) if (!fold.contains(event.target)) fold.open = false;
    });
    search.addEventListener("focus", load);
    search.addEventListener("input", change);
    filters.forEach((one) => one.addEventListener("change", change));
    window.addEventListener("hashchange", () => (restore(), apply()));
    restore();
    // Browsers put back what was typed when a reader returns to the page.
    window.addEventListener("pageshow", apply);
    tools.hidden = false;
  }

  const folds = [];
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details:not([open])")) folds.push(fold), (fold.open = true);
  });
  window.addEventListener("afterprint", () => folds.splice(0).forEach((fold) => (fold.open = false)));
})();
