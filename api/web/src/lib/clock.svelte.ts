// The time of the cluster: the browser's clock may be off by days. What has passed since an answer
// is measured by a clock that nobody sets.

class Clock {
  // Milliseconds of the steady clock, ticking once a second while the tab is visible.
  tick = $state(performance.now());
  #offset = Date.now() - performance.now();
  #heard = false;

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.tick = performance.now();
    }, 1000);
    document.addEventListener('visibilitychange', () => (this.tick = performance.now()));
  }

  // heard takes the Date of an answer, which has whole seconds: the clock is set when it is off
  // by more than that.
  heard(date: string | null) {
    const at = date ? Date.parse(date) : NaN;
    if (Number.isNaN(at)) return;
    const offset = at + 500 - performance.now();
    if (!this.#heard || Math.abs(offset - this.#offset) > 1500) this.#offset = offset;
    this.#heard = true;
  }

  // now is the time of the cluster in whole milliseconds since 1970: a message has whole nanoseconds, which a
  // fraction may not come to. Who reads it is run again each second.
  get now(): number {
    return Math.round(this.tick + this.#offset);
  }
}

export const clock = new Clock();
