package allocation

// Before is the order of siblings, for tests.
func Before(a, b *Element) bool { return a.before(b) }
