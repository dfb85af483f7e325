// The NVRTC functions that this package looks up: NVRTCAPI_FUNCTION(required, symbol, parameter types...). All return
// an nvrtcResult. Functions that are not required are missing from releases still in use (10.2 and later).
#ifndef NVRTCAPI_ABI_H
#define NVRTCAPI_ABI_H

#include <stddef.h>

#ifdef NVRTCAPI_WITH_NVRTC_H // TestABI uses the same table with the real types
typedef nvrtcResult nvrtcapi_result;
typedef nvrtcProgram nvrtcapi_program;
#else
typedef int nvrtcapi_result;                          // nvrtcResult, an enum
typedef struct nvrtcapi_program_st *nvrtcapi_program; // nvrtcProgram
#endif

#define NVRTCAPI_FUNCTIONS(F) \
	F(1, nvrtcVersion, int *, int *) \
	F(1, nvrtcCreateProgram, nvrtcapi_program *, const char *, const char *, int, const char *const *, const char *const *) \
	F(1, nvrtcDestroyProgram, nvrtcapi_program *) \
	F(1, nvrtcCompileProgram, nvrtcapi_program, int, const char *const *) \
	F(1, nvrtcGetPTXSize, nvrtcapi_program, size_t *) \
	F(1, nvrtcGetPTX, nvrtcapi_program, char *) \
	F(0, nvrtcGetCUBINSize, nvrtcapi_program, size_t *) \
	F(0, nvrtcGetCUBIN, nvrtcapi_program, char *) \
	F(1, nvrtcGetProgramLogSize, nvrtcapi_program, size_t *) \
	F(1, nvrtcGetProgramLog, nvrtcapi_program, char *)

#endif
