package playground

import (
	"errors"
	"io"
	"time"

	"weir/examples/clique/load"
)

// Config says what every example does.
type Config struct {
	// Weir is the program weir, Self the program clique.
	Weir, Self string
	// Pictures is the folder for the pictures; it is made if it is missing.
	Pictures string
	Out      io.Writer
	// Agents is how many nodes the cluster has.
	Agents int
	Load   load.Config
	// Requests of a run, at least: it goes on until so many were sent.
	Requests int
	// Notice is how long an instance takes requests after its signal.
	Notice time.Duration
}

// Validate says what is wrong with c, if something is.
func (c Config) Validate() error {
	switch {
	case c.Weir == "" || c.Self == "" || c.Pictures == "" || c.Out == nil:
		return errors.New("a program, the folder of pictures or the place to print to is missing")
	case c.Requests < 0 || c.Notice < 0:
		return errors.New("times and numbers of requests must not be negative")
	}
	return c.Load.Validate()
}
