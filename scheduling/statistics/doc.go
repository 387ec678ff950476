// Package statistics names what is measured of jobs, and adds it up.
//
// A job has values by name, all of them whole numbers. The jobs of a task that ended in
// one state make an Aggregate of each name: how many, their sum, least and greatest, and a
// histogram from which quantiles are read. All arithmetic is on integers, so replicas that
// add the same values have the same bytes.
//
// The values of a job travel and are kept packed: numbers instead of names, varints.
package statistics
