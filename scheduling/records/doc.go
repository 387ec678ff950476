// Package records finds the records of a file that is read in slices.
//
// A file is cut into slices by bytes alone, without being read. A record belongs to the slice in
// which it begins: a reader of [begin, end) starts after the first end of line at or after
// begin-1, and continues until the last record that begins before end is complete. So for any
// cuts, each record is read exactly once, with no coordination between readers.
//
// Formats: Lines are texts that end in a newline; the last line of a file may lack it. JSON is one
// JSON value per line. Bytes have no records, and can be cut anywhere. A Scanner takes the bytes of
// a file block by block, returns the part that belongs to its slice, and counts records. It keeps
// no record in memory, however long.
//
// Counts are additive: the counts of all slices, in any order, sum up to the count of the whole
// file.
package records
