package top

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// column is a column of a table of T.
type column[T any] struct {
	title string
	right bool
	// width is what it takes. If grow is set it gets what is left of the screen, by this weight; then
	// width is the least that it takes.
	width, grow int
	// most, if set, is the width up to which it shows its longest cell as a whole.
	most int
	// rank says which columns a narrow screen leaves out: those of the greatest rank first; 0: none.
	rank int
	// cell returns the cell of an item; n is the width of the column.
	cell func(item T, at look, n int) cell
	// compare orders items by this column; nil: the table cannot be sorted by it.
	compare func(a, b T) int
}

// look is what cells depend on besides their item.
type look struct {
	now time.Time
	// reasons say why operations wait.
	reasons map[string]reason
	// flat: the table is sorted by a column.
	flat bool
}

// table is a list with a cursor: sorted and filtered, of which only what is on the screen is drawn.
type table[T any] struct {
	columns []column[T]
	// id identifies an item, and settles every order; words is what the filter looks in.
	id    func(T) string
	words func(T) []string
	items []T
	// needs is the width of the longest cell of columns that have a most.
	needs []int
	// shown are the indices of the items that match the filter, in their order on the screen.
	shown []int32
	// sort is the column that sorts, -1: as the items are; down reverses it.
	sort   int
	down   bool
	filter string
	// The cursor stays with its item. top is the first item on the screen.
	cursor, top int
	selected    string
}

func newTable[T any](id func(T) string, words func(T) []string, columns ...column[T]) *table[T] {
	return &table[T]{columns: columns, id: id, words: words, sort: -1}
}

// set replaces the items. The cursor stays with its item, or where it was if that has gone.
func (t *table[T]) set(items []T) {
	t.items = items
	t.needs = make([]int, len(t.columns))
	for i, c := range t.columns {
		for j := range items {
			if c.most > 0 && t.needs[i] < c.most {
				t.needs[i] = min(max(t.needs[i], width(c.cell(items[j], look{}, c.most).text)), c.most)
			}
		}
	}
	t.arrange()
}

// least is the width that a column takes at least.
func (t *table[T]) least(i int) int {
	if i < len(t.needs) {
		return max(t.columns[i].width, t.needs[i])
	}
	return t.columns[i].width
}

// arrange filters and sorts.
func (t *table[T]) arrange() {
	filter := strings.ToLower(t.filter)
	t.shown = t.shown[:0]
	for i := range t.items {
		if filter == "" || t.matches(t.items[i], filter) {
			t.shown = append(t.shown, int32(i))
		}
	}
	if t.sort >= 0 {
		by := t.columns[t.sort].compare
		slices.SortFunc(t.shown, func(a, b int32) int {
			order := by(t.items[a], t.items[b])
			if t.down {
				order = -order
			}
			return cmp.Or(order, cmp.Compare(a, b))
		})
	}
	t.find()
}

func (t *table[T]) matches(item T, filter string) bool {
	for _, word := range t.words(item) {
		if strings.Contains(strings.ToLower(word), filter) {
			return true
		}
	}
	return false
}

// find puts the cursor on the selected item.
func (t *table[T]) find() {
	if t.selected != "" {
		for at, i := range t.shown {
			if t.id(t.items[i]) == t.selected {
				t.cursor = at
				return
			}
		}
	}
	t.move(0, 0)
}

// move moves the cursor by some rows on a screen that has n of them.
func (t *table[T]) move(by, n int) {
	t.cursor = max(min(t.cursor+by, len(t.shown)-1), 0)
	if item, ok := t.current(); ok && (by != 0 || t.selected == "" || n == 0) {
		t.selected = t.id(item)
	}
}

// current returns the item under the cursor.
func (t *table[T]) current() (item T, ok bool) {
	if t.cursor >= len(t.shown) {
		return item, false
	}
	return t.items[t.shown[t.cursor]], true
}

// visible returns the items on a screen of n rows.
func (t *table[T]) visible(n int) []T {
	var out []T
	for at := t.top; at < min(t.top+n, len(t.shown)); at++ {
		out = append(out, t.items[t.shown[at]])
	}
	return out
}

// sortNext sorts by the next column, or with step -1 by the one before, of those that can be sorted by and
// that w columns of a screen have room for. Between the last and the first, items are as they came. Numbers begin
// with the greatest.
func (t *table[T]) sortNext(step, w int) {
	shown, _ := t.layout(w)
	for {
		t.sort += step
		switch {
		case t.sort == len(t.columns):
			t.sort = -1
		case t.sort < -1:
			t.sort = len(t.columns) - 1
		}
		if t.sort < 0 || t.columns[t.sort].compare != nil && slices.Contains(shown, t.sort) {
			break
		}
	}
	t.down = t.sort >= 0 && t.columns[t.sort].right
	t.arrange()
}

func (t *table[T]) reverse() {
	t.down = !t.down
	t.arrange()
}

func (t *table[T]) setFilter(text string) {
	t.filter = text
	t.arrange()
}

func (t *table[T]) filtered() string { return t.filter }

// counted says how many items there are, and how many are shown.
func (t *table[T]) counted() (shown, all int) { return len(t.shown), len(t.items) }

// gutter is the room of the mark of the selected row.
const gutter = 2

// layout returns the columns that fit into w, and their widths.
func (t *table[T]) layout(w int) (columns []int, widths []int) {
	for i := range t.columns {
		columns = append(columns, i)
	}
	for {
		needed := gutter
		worst := -1
		for at, i := range columns {
			needed += t.least(i) + 1
			if rank := t.columns[i].rank; rank > 0 && (worst < 0 || rank >= t.columns[columns[worst]].rank) {
				worst = at
			}
		}
		if needed-1 <= w || worst < 0 {
			return columns, t.grow(columns, max(w-needed+1, 0))
		}
		columns = slices.Delete(columns, worst, worst+1)
	}
}

// grow gives the columns their widths, and what is left to those that grow.
func (t *table[T]) grow(columns []int, left int) []int {
	widths := make([]int, len(columns))
	weights := 0
	for at, i := range columns {
		widths[at] = t.least(i)
		weights += t.columns[i].grow
	}
	for at, i := range columns {
		if weight := t.columns[i].grow; weight > 0 {
			more := left * weight / weights
			widths[at] += more
			left, weights = left-more, weights-weight
		}
	}
	return widths
}

// draw returns the header and n rows in w columns. A stale table is faint.
func (t *table[T]) draw(at look, w, n int, stale bool) []string {
	columns, widths := t.layout(w)
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", gutter))
	for k, i := range columns {
		title := t.columns[i].title
		if i == t.sort {
			title += map[bool]string{true: "▼", false: "▲"}[t.down]
		}
		b.WriteString(fit(title, widths[k], t.columns[i].right) + " ")
	}
	lines := []string{bold.on(strings.TrimRight(b.String(), " "))}
	at.flat = t.sort >= 0
	// The cursor is on the screen, and below the last row nothing is left empty that could be filled.
	t.top = max(min(t.top, t.cursor, len(t.shown)-n), t.cursor-n+1, 0)
	for row := t.top; row < min(t.top+n, len(t.shown)); row++ {
		lines = append(lines, t.row(t.items[t.shown[row]], at, columns, widths, row == t.cursor, stale))
	}
	return lines
}

func (t *table[T]) row(item T, at look, columns, widths []int, selected, stale bool) string {
	var b strings.Builder
	if selected {
		b.WriteString("▸ ")
	} else {
		b.WriteString("  ")
	}
	for k, i := range columns {
		c := t.columns[i].cell(item, at, widths[k])
		text := fit(c.text, widths[k], t.columns[i].right)
		if !selected && !stale {
			text = c.style.on(text)
		}
		b.WriteString(text)
		if k < len(columns)-1 {
			b.WriteByte(' ')
		}
	}
	switch line := b.String(); {
	case selected:
		return reversed.on(line)
	case stale:
		return faint.on(strings.TrimRight(line, " "))
	default:
		return line
	}
}
