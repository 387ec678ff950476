// Package foretell measures on a live cluster how good the estimates of starts are. It keeps pools busy with
// random operations, asks when those that wait will start jobs, and compares that with when they do.
package foretell
