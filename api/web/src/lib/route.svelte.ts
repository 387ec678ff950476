// The address is where the page is: #/view/id?filter=value. Filters live in it, so that a link shows
// what its sender saw, and the browser's back button works.

function read() {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = '', ...rest] = path.split('/');
  return { view: view || 'pools', id: rest.map(decoded).join('/'), query: new URLSearchParams(query) };
}

// decoded lets an address that is no valid one be itself.
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class Route {
  now = $state.raw(read());

  constructor() {
    addEventListener('hashchange', () => (this.now = read()));
  }

  get(name: string): string {
    return this.now.query.get(name) ?? '';
  }

  // set changes filters in place: no step in the history for each letter that is typed.
  set(values: Record<string, string>) {
    const query = new URLSearchParams(this.now.query);
    for (const [name, value] of Object.entries(values)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    history.replaceState(null, '', to(this.now.view, this.now.id, query));
    this.now = read();
  }
}

export const route = new Route();

export function to(view: string, id = '', query: Record<string, string> | URLSearchParams = {}): string {
  const rest = new URLSearchParams(query).toString();
  return `#/${view}${id && '/' + encodeURIComponent(id)}${rest && '?' + rest}`;
}

// toPool leads to the pool of an operation, in the first of its trees.
export function toPool(o: { pool: string; trees: { tree: string; pool: string }[] }): string {
  const [first] = o.trees;
  return to('pools', '', first ? { tree: first.tree, pool: first.pool } : { pool: o.pool });
}
