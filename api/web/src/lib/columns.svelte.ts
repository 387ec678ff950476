// The columns of a table, of which one may choose; the browser remembers the choice.

export interface Column {
  name: string;
  // Its track in the grid; on a phone, where a column without one is left out.
  width: string;
  phone?: string;
  number?: boolean;
  title?: string;
  // It is not shown unless one chooses it.
  off?: boolean;
}

export class Columns {
  #choice = $state.raw<Record<string, boolean>>({});
  #key: string;

  // The first of all is always there.
  constructor(readonly table: string, readonly all: Column[]) {
    this.#key = `columns/${table}`;
    try {
      this.#choice = JSON.parse(localStorage.getItem(this.#key) ?? '{}');
    } catch {
      // What is not readable is no choice.
    }
  }

  has = (name: string) => {
    const i = this.all.findIndex((c) => c.name === name);
    return i === 0 || (this.#choice[name] ?? !this.all[i]?.off);
  };

  // shown answers those that are shown, without some for which there is no room.
  shown = (without: string[] = []) => this.all.filter((c) => !without.includes(c.name) && this.has(c.name));

  choose(name: string, on: boolean) {
    this.#choice = { ...this.#choice, [name]: on };
    try {
      localStorage.setItem(this.#key, JSON.stringify(this.#choice));
    } catch {
      // A browser that keeps nothing keeps the choice as long as the page is open.
    }
  }
}
