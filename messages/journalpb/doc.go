// Package journalpb holds the records of an agent's journal.
package journalpb
