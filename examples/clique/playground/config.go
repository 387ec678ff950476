package playground

import (
	"errors"
	"io"
	"time"

	"weir/examples/clique/load"
)

// Config is the configuration that the examples share.
type Config struct {
	// Weir is the path of the program weir; Self is the path of the program clique.
	Weir, Self string
	// Pictures is the folder for the pictures; it is created if missing.
	Pictures string
	Out      io.Writer
	// Agents is how many nodes the cluster has.
	Agents int
	Load   load.Config
	// Requests is the minimum number of requests of a run: the run goes on until they are sent.
	Requests int
	// Notice is how long an instance accepts requests after its signal.
	Notice time.Duration
}

// Validate returns an error if c is invalid.
func (c Config) Validate() error {
	switch {
	case c.Weir == "" || c.Self == "" || c.Pictures == "" || c.Out == nil:
		return errors.New("the path of a program, the folder of pictures or the output is missing")
	case c.Requests < 0 || c.Notice < 0:
		return errors.New("times and numbers of requests must not be negative")
	}
	return c.Load.Validate()
}
