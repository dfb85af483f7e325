//go:build cgo

#include "_cgo_export.h"

/* The algorithms of millstream.h. */

#define CHECK_LEARN(name) \
	CHECK_FORK; \
	CHECK(o != NULL && o->size >= sizeof *o, name ": size of the arguments is smaller than that of version 1"); \
	CHECK((parts != NULL || n == 0) && n <= MILLSTREAM_MAX_PARTS, name ": parts is NULL, or there are too many")

int millstream_v1_kmeans_fit(millstream_v1_comm comm, millstream_v1_learn *o, const millstream_v1_part *parts, size_t n) {
	CHECK_LEARN("kmeans_fit");
	CHECK(o->centers != NULL, "kmeans_fit: centers is NULL");
	return millstreamKMeansFit(comm, o, (millstream_v1_part *)parts, n, !millstream_has_cuda(), millstream_last());
}

int millstream_v1_kmeans_predict(const millstream_v1_learn *o, const millstream_v1_part *parts, size_t n) {
	CHECK_LEARN("kmeans_predict");
	CHECK(o->centers != NULL, "kmeans_predict: centers is NULL");
	return millstreamKMeansPredict((millstream_v1_learn *)o, (millstream_v1_part *)parts, n, !millstream_has_cuda(),
		millstream_last());
}

int millstream_v1_tall_reduce(millstream_v1_comm comm, millstream_v1_learn *o, const millstream_v1_part *parts, size_t n,
	double *mean, double *triangle) {
	CHECK_LEARN("tall_reduce");
	CHECK(mean != NULL && triangle != NULL, "tall_reduce: mean and triangle are required");
	return millstreamTallReduce(comm, o, (millstream_v1_part *)parts, n, !millstream_has_cuda(), mean, triangle, millstream_last());
}
