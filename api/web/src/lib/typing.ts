// What is typed into filters.

import { onDestroy } from 'svelte';
import { route } from './route.svelte';

// typing puts what is typed into the address when the keys have rested: all filters together, whichever was typed
// last. It is dropped when one goes to another address before.
export function typing(): (name: string, value: string) => void {
  let typed: Record<string, string> = {};
  let rest: ReturnType<typeof setTimeout> | undefined;
  const drop = () => {
    clearTimeout(rest);
    typed = {};
  };
  addEventListener('hashchange', drop);
  // A view that goes with its address goes before it is told.
  onDestroy(() => {
    drop();
    removeEventListener('hashchange', drop);
  });
  return (name, value) => {
    clearTimeout(rest);
    typed[name] = value;
    rest = setTimeout(() => {
      route.set({ ...typed, after: '' });
      typed = {};
    }, 200);
  };
}
