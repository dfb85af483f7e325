/* The part of UCX's binary interface that Millstream uses, declared here so
 * that no UCX header is needed to build and one binary works with UCX 1.13 … 1.22.
 *
 * UCX's structs are append-only and guarded by field masks: a longer struct
 * with unknown masks clear is valid for every release. Each struct below is the
 * longest known form. abi_test.go compares sizes and offsets with real headers.
 */
#ifndef MILLSTREAM_UCP_ABI_H
#define MILLSTREAM_UCP_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/* ucs_status_t is a packed enum: one byte, signed. */
typedef signed char ux_status;
typedef void *ux_status_ptr;

enum {
    UX_OK = 0,
    UX_INPROGRESS = 1,
    UX_ERR_NO_MESSAGE = -1,
    UX_ERR_NO_RESOURCE = -2,
    UX_ERR_IO_ERROR = -3,
    UX_ERR_NO_MEMORY = -4,
    UX_ERR_INVALID_PARAM = -5,
    UX_ERR_TRUNCATED = -9,
    UX_ERR_BUSY = -15,
    UX_ERR_CANCELED = -16,
    UX_ERR_UNSUPPORTED = -22,
    UX_ERR_NOT_CONNECTED = -24,
    UX_ERR_CONNECTION_RESET = -25,
    UX_ERR_LAST = -100
};

#define UX_IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)UX_ERR_LAST)
#define UX_PTR_STATUS(p) ((int)(intptr_t)(p))

/* Features, field masks and flags: bit numbers from ucp.h. */
#define UX_BIT(n) (1ull << (n))

#define UX_PARAM_FEATURES UX_BIT(0)
#define UX_PARAM_MT_WORKERS_SHARED UX_BIT(5)
#define UX_PARAM_ESTIMATED_NUM_EPS UX_BIT(6)
#define UX_PARAM_NAME UX_BIT(8)

#define UX_WORKER_PARAM_THREAD_MODE UX_BIT(0)
#define UX_WORKER_PARAM_FLAGS UX_BIT(5)
#define UX_WORKER_PARAM_NAME UX_BIT(6)
#define UX_WORKER_FLAG_IGNORE_REQUEST_LEAK UX_BIT(0)

#define UX_EP_PARAM_REMOTE_ADDRESS UX_BIT(0)
#define UX_EP_PARAM_ERR_MODE UX_BIT(1)
#define UX_EP_PARAM_ERR_HANDLER UX_BIT(2)
#define UX_EP_PARAM_SOCK_ADDR UX_BIT(4)
#define UX_EP_PARAM_FLAGS UX_BIT(5)
#define UX_EP_PARAM_CONN_REQUEST UX_BIT(6)
#define UX_EP_PARAM_NAME UX_BIT(7)
#define UX_EP_PARAM_LOCAL_SOCK_ADDR UX_BIT(8)
#define UX_EP_FLAG_CLIENT_SERVER UX_BIT(0)
#define UX_EP_FLAG_NO_LOOPBACK UX_BIT(1)
#define UX_EP_CLOSE_FORCE UX_BIT(0)

#define UX_LISTENER_PARAM_SOCK_ADDR UX_BIT(0)
#define UX_LISTENER_PARAM_CONN_HANDLER UX_BIT(2)
#define UX_LISTENER_ATTR_SOCKADDR UX_BIT(0)
#define UX_CONN_REQ_ATTR_CLIENT_ADDR UX_BIT(0)

#define UX_ATTR_THREAD_MODE UX_BIT(1)
#define UX_ATTR_MEMORY_TYPES UX_BIT(2)
#define UX_ATTR_NAME UX_BIT(3)

#define UX_WORKER_ATTR_THREAD_MODE UX_BIT(0)
#define UX_WORKER_ATTR_ADDRESS UX_BIT(1)
#define UX_WORKER_ATTR_ADDRESS_FLAGS UX_BIT(2)
#define UX_WORKER_ATTR_MAX_AM_HEADER UX_BIT(3)
#define UX_WORKER_ADDRESS_NET_ONLY UX_BIT(0)

#define UX_EP_ATTR_NAME UX_BIT(0)
#define UX_EP_ATTR_LOCAL_SOCKADDR UX_BIT(1)
#define UX_EP_ATTR_REMOTE_SOCKADDR UX_BIT(2)
#define UX_EP_ATTR_TRANSPORTS UX_BIT(3)

#define UX_MEM_PARAM_ADDRESS UX_BIT(0)
#define UX_MEM_PARAM_LENGTH UX_BIT(1)
#define UX_MEM_PARAM_FLAGS UX_BIT(2)
#define UX_MEM_PARAM_MEMORY_TYPE UX_BIT(4)
#define UX_MEM_MAP_NONBLOCK UX_BIT(0)
#define UX_MEM_MAP_ALLOCATE UX_BIT(1)
#define UX_MEM_ATTR_ADDRESS UX_BIT(0)
#define UX_MEM_ATTR_LENGTH UX_BIT(1)
#define UX_MEM_ATTR_MEM_TYPE UX_BIT(2)

#define UX_OP_CALLBACK UX_BIT(1)
#define UX_OP_USER_DATA UX_BIT(2)
#define UX_OP_DATATYPE UX_BIT(3)
#define UX_OP_FLAGS UX_BIT(4)
#define UX_OP_REPLY_BUFFER UX_BIT(5)
#define UX_OP_MEMORY_TYPE UX_BIT(6)
#define UX_OP_MEMH UX_BIT(8)
#define UX_OP_NO_IMM_CMPL UX_BIT(16)
#define UX_OP_MULTI_SEND UX_BIT(19)

#define UX_STREAM_RECV_WAITALL UX_BIT(0)

#define UX_AM_HANDLER_ID UX_BIT(0)
#define UX_AM_HANDLER_FLAGS UX_BIT(1)
#define UX_AM_HANDLER_CB UX_BIT(2)
#define UX_AM_HANDLER_ARG UX_BIT(3)
#define UX_AM_FLAG_WHOLE_MSG UX_BIT(0)
#define UX_AM_SEND_REPLY UX_BIT(0)
#define UX_AM_SEND_EAGER UX_BIT(1)
#define UX_AM_SEND_RNDV UX_BIT(2)
#define UX_AM_RECV_REPLY_EP UX_BIT(0)
#define UX_AM_RECV_FLAG_DATA UX_BIT(16)
#define UX_AM_RECV_FLAG_RNDV UX_BIT(17)

#define UX_REQ_ATTR_INFO_STRING UX_BIT(0)
#define UX_REQ_ATTR_INFO_STRING_SIZE UX_BIT(1)
#define UX_REQ_ATTR_STATUS UX_BIT(2)

#define UX_ERR_MODE_NONE 0
#define UX_ERR_MODE_PEER 1

#define UX_THREAD_SINGLE 0
#define UX_THREAD_SERIALIZED 1
#define UX_THREAD_MULTI 2

#define UX_CONFIG_PRINT_CONFIG UX_BIT(0)

/* ucp_dt_make_contig(1) and UCP_DATATYPE_IOV; contig element size n is (n<<3). */
#define UX_DT_CONTIG(n) ((uint64_t)(n) << 3)
#define UX_DT_IOV 2ull

typedef void (*ux_send_cb)(void *req, ux_status st, void *user);
typedef struct { uint64_t sender_tag; size_t length; } ux_tag_info;
typedef void (*ux_tag_recv_cb)(void *req, ux_status st, const ux_tag_info *info, void *user);
typedef void (*ux_stream_recv_cb)(void *req, ux_status st, size_t length, void *user);
typedef void (*ux_am_data_cb)(void *req, ux_status st, size_t length, void *user);
typedef void (*ux_err_cb)(void *arg, void *ep, ux_status st);
typedef void (*ux_conn_cb)(void *conn_request, void *arg);

typedef struct {
    uint32_t op_attr_mask;
    uint32_t flags;
    void *request;
    union {
        ux_send_cb send;
        ux_tag_recv_cb recv;
        ux_stream_recv_cb recv_stream;
        ux_am_data_cb recv_am;
    } cb;
    uint64_t datatype;
    void *user_data;
    void *reply_buffer;
    uint32_t memory_type;
    void *recv_info;
    void *memh;
    uint64_t remote_datatype; /* 1.22 */
    void *remote;
    size_t remote_count;
} ux_request_param;

typedef struct {
    uint64_t field_mask, features;
    size_t request_size;
    void *request_init, *request_cleanup;
    uint64_t tag_sender_mask;
    int mt_workers_shared;
    size_t estimated_num_eps, estimated_num_ppn;
    const char *name;
    uint64_t node_local_id; /* 1.20 */
} ux_params;

typedef struct {
    uint64_t field_mask;
    uint32_t thread_mode;
    uint8_t cpu_mask[128] __attribute__((aligned(8)));
    uint32_t events;
    void *user_data;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t am_alignment;
    uint64_t client_id;
} ux_worker_params;

typedef struct { const struct sockaddr *addr; socklen_t addrlen; } ux_sock_addr;

typedef struct {
    uint64_t field_mask;
    const void *address;
    uint32_t err_mode;
    struct { ux_err_cb cb; void *arg; } err_handler;
    void *user_data;
    uint32_t flags;
    ux_sock_addr sockaddr;
    void *conn_request;
    const char *name;
    ux_sock_addr local_sockaddr;
} ux_ep_params;

typedef struct {
    uint64_t field_mask;
    ux_sock_addr sockaddr;
    struct { void *cb; void *arg; } accept_handler;
    struct { ux_conn_cb cb; void *arg; } conn_handler;
} ux_listener_params;

typedef struct { uint64_t field_mask; struct sockaddr_storage sockaddr; } ux_listener_attr;

typedef struct {
    uint64_t field_mask;
    struct sockaddr_storage client_address;
    uint64_t client_id;
} ux_conn_request_attr;

typedef struct {
    uint64_t field_mask;
    void *address;
    size_t length;
    uint32_t flags, prot, memory_type;
    const void *exported_memh_buffer; /* 1.14 */
} ux_mem_map_params;

typedef struct {
    uint64_t field_mask;
    void *address;
    size_t length;
    uint32_t mem_type;
} ux_mem_attr;

typedef struct {
    uint64_t field_mask;
    size_t request_size;
    uint32_t thread_mode;
    uint64_t memory_types;
    char name[32];
    size_t device_counter_size; /* 1.20 */
} ux_context_attr;

typedef struct {
    uint64_t field_mask;
    uint32_t thread_mode, address_flags;
    void *address;
    size_t address_length, max_am_header;
    char name[32];
    size_t max_debug_string;
} ux_worker_attr;

typedef struct { const char *transport_name, *device_name; } ux_transport_entry;

typedef struct {
    uint64_t field_mask;
    char name[32];
    struct sockaddr_storage local_sockaddr, remote_sockaddr;
    struct { ux_transport_entry *entries; unsigned num_entries; size_t entry_size; } transports; /* 1.14 */
    void *user_data; /* 1.18 */
} ux_ep_attr;

typedef struct { uint64_t recv_attr; void *reply_ep; } ux_am_recv_param;
typedef ux_status (*ux_am_cb)(void *arg, const void *header, size_t header_length, void *data,
                              size_t length, const ux_am_recv_param *param);
typedef struct {
    uint64_t field_mask;
    unsigned id;
    uint32_t flags;
    ux_am_cb cb;
    void *arg;
} ux_am_handler_param;

typedef struct {
    uint64_t field_mask;
    char *debug_string;
    size_t debug_string_size;
    ux_status status;
    uint32_t mem_type;
} ux_request_attr;

typedef struct { void *buffer; size_t length; } ux_iov;

typedef struct { uint64_t field_mask; size_t message_size; } ux_perf_param;
typedef struct { uint64_t field_mask; double estimated_time; } ux_perf_attr;

/* Functions resolved by dlsym. REQ: present in every release since 1.13; OPT: may be NULL. */
#define UX_FUNCS(REQ, OPT)                                                                         \
    REQ(void, ucp_get_version, (unsigned *, unsigned *, unsigned *))                               \
    REQ(const char *, ucp_get_version_string, (void))                                              \
    REQ(ux_status, ucp_config_read, (const char *, const char *, void **))                         \
    REQ(void, ucp_config_release, (void *))                                                        \
    REQ(ux_status, ucp_config_modify, (void *, const char *, const char *))                        \
    REQ(void, ucp_config_print, (const void *, FILE *, const char *, int))                         \
    REQ(ux_status, ucp_init_version, (unsigned, unsigned, const ux_params *, const void *, void **)) \
    REQ(void, ucp_cleanup, (void *))                                                               \
    REQ(ux_status, ucp_context_query, (void *, ux_context_attr *))                                 \
    REQ(void, ucp_context_print_info, (const void *, FILE *))                                      \
    REQ(ux_status, ucp_worker_create, (void *, const ux_worker_params *, void **))                 \
    REQ(void, ucp_worker_destroy, (void *))                                                        \
    REQ(ux_status, ucp_worker_query, (void *, ux_worker_attr *))                                   \
    REQ(void, ucp_worker_print_info, (void *, FILE *))                                             \
    REQ(void, ucp_worker_release_address, (void *, void *))                                        \
    REQ(unsigned, ucp_worker_progress, (void *))                                                   \
    REQ(ux_status, ucp_worker_get_efd, (void *, int *))                                            \
    REQ(ux_status, ucp_worker_arm, (void *))                                                       \
    REQ(ux_status, ucp_worker_fence, (void *))                                                     \
    REQ(ux_status_ptr, ucp_worker_flush_nbx, (void *, const ux_request_param *))                   \
    REQ(ux_status, ucp_listener_create, (void *, const ux_listener_params *, void **))             \
    REQ(void, ucp_listener_destroy, (void *))                                                      \
    REQ(ux_status, ucp_listener_query, (void *, ux_listener_attr *))                               \
    REQ(ux_status, ucp_conn_request_query, (void *, ux_conn_request_attr *))                       \
    REQ(ux_status, ucp_listener_reject, (void *, void *))                                          \
    REQ(ux_status, ucp_ep_create, (void *, const ux_ep_params *, void **))                         \
    REQ(ux_status_ptr, ucp_ep_close_nbx, (void *, const ux_request_param *))                       \
    REQ(ux_status_ptr, ucp_ep_flush_nbx, (void *, const ux_request_param *))                       \
    REQ(void, ucp_ep_print_info, (void *, FILE *))                                                 \
    REQ(ux_status, ucp_ep_query, (void *, ux_ep_attr *))                                           \
    REQ(ux_status, ucp_mem_map, (void *, const ux_mem_map_params *, void **))                      \
    REQ(ux_status, ucp_mem_unmap, (void *, void *))                                                \
    REQ(ux_status, ucp_mem_query, (void *, ux_mem_attr *))                                         \
    REQ(ux_status, ucp_rkey_pack, (void *, void *, void **, size_t *))                             \
    REQ(void, ucp_rkey_buffer_release, (void *))                                                   \
    REQ(ux_status, ucp_ep_rkey_unpack, (void *, const void *, void **))                            \
    REQ(void, ucp_rkey_destroy, (void *))                                                          \
    REQ(ux_status, ucp_worker_set_am_recv_handler, (void *, const ux_am_handler_param *))          \
    REQ(ux_status_ptr, ucp_am_send_nbx,                                                            \
        (void *, unsigned, const void *, size_t, const void *, size_t, const ux_request_param *))  \
    REQ(ux_status_ptr, ucp_am_recv_data_nbx, (void *, void *, void *, size_t, const ux_request_param *)) \
    REQ(void, ucp_am_data_release, (void *, void *))                                               \
    REQ(ux_status_ptr, ucp_stream_send_nbx, (void *, const void *, size_t, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_stream_recv_nbx, (void *, void *, size_t, size_t *, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_tag_send_nbx, (void *, const void *, size_t, uint64_t, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_tag_send_sync_nbx, (void *, const void *, size_t, uint64_t, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_tag_recv_nbx,                                                           \
        (void *, void *, size_t, uint64_t, uint64_t, const ux_request_param *))                    \
    REQ(void *, ucp_tag_probe_nb, (void *, uint64_t, uint64_t, int, ux_tag_info *))                \
    REQ(ux_status_ptr, ucp_tag_msg_recv_nbx, (void *, void *, size_t, void *, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_put_nbx, (void *, const void *, size_t, uint64_t, void *, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_get_nbx, (void *, void *, size_t, uint64_t, void *, const ux_request_param *)) \
    REQ(ux_status_ptr, ucp_atomic_op_nbx,                                                          \
        (void *, int, const void *, size_t, uint64_t, void *, const ux_request_param *))           \
    REQ(void, ucp_request_cancel, (void *, void *))                                                \
    REQ(void, ucp_request_free, (void *))                                                          \
    REQ(ux_status, ucp_request_query, (void *, ux_request_attr *))                                 \
    OPT(ux_status, ucp_ep_evaluate_perf, (void *, const ux_perf_param *, ux_perf_attr *))

#endif
