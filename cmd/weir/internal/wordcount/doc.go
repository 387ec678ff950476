// Package wordcount counts the words of a folder's files with the jobs of a
// cluster, kills the cluster's leader when half of the jobs have completed, and
// compares every file's count with one that was made without the cluster.
//
// Each job starts two processes for each of its files, which is work enough to be
// running when the leader dies. Only the last one may have to wait, until that was killed:
// nothing can keep the operation from being there then.
package wordcount
