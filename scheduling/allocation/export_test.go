package allocation

// High reports whether e comes before others because it has less than it was promised.
func (e *Element) High() bool { return e.high }
