package option

import (
	"reflect"
	"slices"
)

// table holds the settings of a struct.
type table struct {
	// settings are all settings. own are the settings without the fields of type Elsewhere.
	settings, own []setting
	// byName holds the indexes in settings by name and alias.
	byName map[string]int
	// required says that at least one of the settings is required.
	required bool
}

// declared holds the tables of declared structs. It is written only during the initialization of
// packages.
var declared = map[reflect.Type]*table{}

// Declare caches the tables of structs, of the structs embedded in them and of their groups. Call
// it for a package variable, as in var _ = option.Declare(PoolOptions{}). Structs that are not
// declared can be read too, but more slowly.
func Declare(structs ...any) bool {
	for _, of := range structs {
		declare(structOf(of))
	}
	return true
}

func declare(t reflect.Type) {
	if declared[t] != nil {
		return
	}
	tb := makeTable(t)
	declared[t] = tb
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type.Kind() == reflect.Struct {
			declare(f.Type)
		}
	}
	for _, s := range tb.own {
		switch s.Kind {
		case kindGroup:
			declare(s.typ.Elem())
		case kindGroups, kindGroupsByName:
			declare(s.typ.Elem().Elem())
		}
	}
}

func tableOf(t reflect.Type) *table {
	if tb := declared[t]; tb != nil {
		return tb
	}
	return makeTable(t)
}

func makeTable(t reflect.Type) *table {
	tb := &table{settings: settingsOf(t), byName: make(map[string]int)}
	for i := range tb.settings {
		s := &tb.settings[i]
		tb.required = tb.required || s.Required != ""
		for _, name := range append([]string{s.name}, s.Aliases...) {
			if _, taken := tb.byName[name]; !taken {
				tb.byName[name] = i
			}
		}
	}
	tb.own = slices.DeleteFunc(slices.Clone(tb.settings), func(s setting) bool { return s.elsewhere != "" })
	return tb
}

// find returns the setting with a name or an alias.
func (tb *table) find(name string) (setting, bool) {
	i, ok := tb.byName[Canonical(name)]
	if !ok {
		return setting{}, false
	}
	return tb.settings[i], true
}
