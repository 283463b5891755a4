/*
 * A server: HTTP/1.1 with JSON, by libmicrohttpd (Debian: libmicrohttpd-dev).
 *
 *     serve MODEL [--port N] [--address A] [--threads N] [--top N] [--rows N] [--body BYTES] [--seconds N]
 *           [--connections N]
 *
 *     curl -d '{"row": "some words"}' http://127.0.0.1:8080/predict      serve/rows.c says what rows are
 *     curl http://127.0.0.1:8080/model                                   facts about the model
 *     curl http://127.0.0.1:8080/health
 *     curl -X POST http://127.0.0.1:8080/reload                          loads the file now, and says how that went
 *
 * The model's file is watched: rename a new one into its place, and it takes over while requests run. SIGTERM and
 * SIGINT end the server when the requests that run are answered.
 *
 *     cc -D_GNU_SOURCE serve.c serve/model.c serve/rows.c -pthread -o serve \
 *         $(pkg-config --cflags --libs xsoftmax jansson libmicrohttpd)
 *
 * One thread accepts connections and closes those that take too long; libmicrohttpd's threads read requests and answer
 * them, each with a worker of the model; one loads models.
 */
#include "serve/serve.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

/* Between two looks at what takes too long. */
#define TICK_NANOSECONDS 100000000
/* Of a thread that answers: JSON may be 2,048 deep, which Jansson reads by recursion. */
#define STACK_BYTES ((size_t)4 << 20)
/* Connections beyond the limit that are answered by 503; more wait until one ends. */
#define REFUSED_CONNECTIONS 64

typedef struct server server;

/* A connection, and the request on it. */
typedef struct client {
    struct client *next, **link; /* all connections of the server */
    server *of;
    int socket;
    uint64_t deadline; /* on serve_clock(); 0 = none */
    int surplus;       /* one of more connections than the limit */
    int running;       /* a request has begun */
    int entered;       /* its headers have been read */
    char *body;
    size_t length, room;
    int too_large, no_memory;
    enum { NOT_RELOADING, RELOADING, RELOADED } reload;
    char reason[480]; /* why the reload failed, or empty */
    struct MHD_Connection *connection;
} client;

struct server {
    serve_options options;
    serve_models *models;
    struct MHD_Daemon *daemon;
    atomic_int ending;

    pthread_mutex_t lock; /* of what follows, and of each client's links, deadline and running */
    client *clients;
    uint32_t count;    /* clients */
    uint32_t running;  /* requests */
    uint64_t requests; /* since the start */
};

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

/* -- connections --------------------------------------------------------------------------------------------------- */

static uint64_t in_time(const server *s)
{
    return serve_clock() + s->options.seconds * UINT64_C(1000000000);
}

static void set_deadline(client *c, uint64_t deadline)
{
    pthread_mutex_lock(&c->of->lock);
    c->deadline = deadline;
    pthread_mutex_unlock(&c->of->lock);
}

static void end_request(client *c)
{
    server *s = c->of;
    free(c->body);
    c->body = NULL;
    c->length = c->room = 0;
    c->entered = c->too_large = c->no_memory = 0;
    c->reload = NOT_RELOADING;
    pthread_mutex_lock(&s->lock);
    s->running -= (uint32_t)c->running;
    c->running = 0;
    c->deadline = in_time(s);
    pthread_mutex_unlock(&s->lock);
}

static client *client_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void open_client(server *s, struct MHD_Connection *connection, void **context)
{
    client *c = calloc(1, sizeof *c);
    *context = c;
    if (!c) {
        return; /* its first request ends it */
    }
    c->of = s;
    c->connection = connection;
    c->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    c->deadline = in_time(s);
    pthread_mutex_lock(&s->lock);
    c->surplus = s->count++ >= s->options.connections;
    c->next = s->clients;
    c->link = &s->clients;
    if (c->next) {
        c->next->link = &c->next;
    }
    s->clients = c;
    pthread_mutex_unlock(&s->lock);
}

/* Before the socket is closed, so that nobody shuts down another that has its number. */
static void close_client(client *c)
{
    server *s = c->of;
    end_request(c);
    pthread_mutex_lock(&s->lock);
    s->count--;
    *c->link = c->next;
    if (c->next) {
        c->next->link = c->link;
    }
    pthread_mutex_unlock(&s->lock);
    free(c);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_client(cls, connection, context);
    } else if (*context) {
        close_client(*context);
        *context = NULL;
    }
}

/* The first line of a request has been read. */
static void *on_request(void *cls, const char *uri, struct MHD_Connection *connection)
{
    server *s = cls;
    client *c = client_of(connection);
    (void)uri;
    if (c) {
        pthread_mutex_lock(&s->lock);
        s->running += !c->running;
        s->requests++;
        c->running = 1;
        c->deadline = in_time(s);
        pthread_mutex_unlock(&s->lock);
    }
    return c;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)connection;
    (void)code;
    if (*request) {
        end_request(*request);
        *request = NULL;
    }
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

/* Sends an answer, which it frees. `allow` names the methods that are, with 405. */
static enum MHD_Result reply(client *c, serve_answer answer, const char *allow)
{
    static char no_memory[] = "{\"error\":\"out of memory\"}";
    char *text = answer.body ? json_dumps(answer.body, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(answer.body);
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer_with_free_callback(strlen(text), text, serve_release)
             : MHD_create_response_from_buffer(strlen(no_memory), no_memory, MHD_RESPMEM_PERSISTENT);
    if (!response) {
        serve_release(text);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    if (allow) {
        (void)MHD_add_response_header(response, "Allow", allow);
    }
    if (c->of->ending || c->surplus) {
        (void)MHD_add_response_header(response, "Connection", "close");
    }
    set_deadline(c, in_time(c->of)); /* for the client to read it */
    const enum MHD_Result queued = MHD_queue_response(c->connection, text ? answer.status : 503, response);
    MHD_destroy_response(response);
    return queued;
}

static serve_answer too_large(const client *c)
{
    return serve_refuse(413, "the body is larger than %u bytes", c->of->options.body);
}

static enum MHD_Result predict(client *c)
{
    server *s = c->of;
    if (c->too_large) {
        return reply(c, too_large(c), NULL);
    }
    if (c->no_memory) {
        return reply(c, serve_refuse(503, "out of memory"), NULL);
    }
    set_deadline(c, 0);
    serve_deadline = in_time(s);
    serve_worker *worker = serve_models_take(s->models);
    const serve_answer answer = serve_predict(worker, &s->options, c->body ? c->body : "", c->length);
    serve_models_give(s->models, worker);
    serve_deadline = 0;
    return reply(c, answer, NULL);
}

static enum MHD_Result describe(client *c)
{
    serve_worker *worker = serve_models_take(c->of->models);
    const serve_answer answer = serve_describe(worker, &c->of->options);
    serve_models_give(c->of->models, worker);
    return reply(c, answer, NULL);
}

static enum MHD_Result health(client *c)
{
    server *s = c->of;
    serve_replaced replaced;
    serve_models_replaced(s->models, &replaced);
    pthread_mutex_lock(&s->lock);
    const uint64_t requests = s->requests, connections = s->count;
    pthread_mutex_unlock(&s->lock);
    json_t *body = json_pack("{s:s, s:I, s:I, s:I, s:I}", "status", s->ending ? "ending" : "serving", "generation",
                             (json_int_t)replaced.generation, "refused", (json_int_t)replaced.refused, "requests",
                             (json_int_t)requests, "connections", (json_int_t)connections);
    if (body && replaced.reason[0]) { /* a path in it need not be UTF-8 */
        serve_answer reason = serve_refuse(0, "%s", replaced.reason);
        (void)json_object_update(body, reason.body);
        json_decref(reason.body);
    }
    return reply(c, (serve_answer){s->ending ? 503 : 200, body}, NULL);
}

static void reloaded(void *user, const char *reason)
{
    client *c = user;
    snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "");
    c->reload = RELOADED;
    MHD_resume_connection(c->connection);
}

/* The connection sleeps until the loader has an answer, so that its thread goes on with others. */
static enum MHD_Result reload(client *c)
{
    if (c->reload == NOT_RELOADING) {
        c->reload = RELOADING;
        set_deadline(c, 0);
        MHD_suspend_connection(c->connection);
        serve_models_reload(c->of->models, reloaded, c);
        return MHD_YES;
    }
    serve_replaced replaced;
    serve_models_replaced(c->of->models, &replaced);
    return reply(c,
                 c->reason[0] ? serve_refuse(c->of->ending ? 503 : 409, "%s", c->reason)
                              : (serve_answer){200, json_pack("{s:I}", "generation", (json_int_t)replaced.generation)},
                 NULL);
}

static const struct route {
    const char *path;
    int post; /* 1 = POST, 0 = GET and HEAD */
    enum MHD_Result (*answer)(client *c);
} routes[] = {{"/predict", 1, predict}, {"/reload", 1, reload}, {"/model", 0, describe}, {"/health", 0, health}};

static enum MHD_Result answer_request(client *c, const char *url, const char *method)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(url, routes[i].path) != 0) {
            continue;
        }
        const char *allow = routes[i].post ? "POST" : "GET, HEAD";
        if (routes[i].post ? strcmp(method, "POST") == 0 : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
            return routes[i].answer(c);
        }
        return reply(c, serve_refuse(405, "%s accepts %s", url, allow), allow);
    }
    return reply(c, serve_refuse(404, "there are /predict, /model, /health and /reload"), NULL);
}

/* Keeps a part of the body. A body that is too large is read to its end, as clients read the answer only then. */
static void keep(client *c, const char *data, size_t size)
{
    const size_t limit = c->of->options.body;
    if (c->too_large || c->no_memory || size > limit - c->length) {
        c->too_large = !c->no_memory;
        return;
    }
    if (c->length + size > c->room) {
        const size_t doubled = c->room < limit / 2 ? 2 * c->room : limit;
        const size_t room = c->length + size > doubled ? c->length + size : doubled;
        char *larger = realloc(c->body, room);
        if (!larger) {
            c->no_memory = 1;
            return;
        }
        c->body = larger;
        c->room = room;
    }
    memcpy(c->body + c->length, data, size);
    c->length += size;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *data, size_t *size, void **request)
{
    client *c = *request;
    (void)cls;
    (void)version;
    if (!c) {
        return MHD_NO; /* no memory for the connection */
    }
    if (!c->entered) {
        c->entered = 1;
        if (c->surplus) {
            return reply(c, serve_refuse(503, "more than %u connections", c->of->options.connections), NULL);
        }
        /* A client that waits for "100 Continue" need not send what is refused anyway. */
        const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        if (length && strtoull(length, NULL, 10) > c->of->options.body &&
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Expect")) {
            return reply(c, too_large(c), NULL);
        }
        return MHD_YES;
    }
    if (*size > 0) {
        keep(c, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return answer_request(c, url, method);
}

/* -- the server ---------------------------------------------------------------------------------------------------- */

/* A socket that listens, or -1. Prints where. */
static int open_socket(const serve_options *o)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *at = NULL;
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    char port[8], host[INET6_ADDRSTRLEN + 1];
    const int on = 1;
    snprintf(port, sizeof port, "%u", o->port);
    const int wrong = getaddrinfo(o->address, port, &hints, &at);
    if (wrong) {
        fprintf(stderr, "serve: --address %s: %s\n", o->address, gai_strerror(wrong));
        return -1;
    }
    int s = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(s, at->ai_addr, at->ai_addrlen) != 0 || listen(s, SOMAXCONN) != 0 ||
        getsockname(s, (struct sockaddr *)&bound, &length) != 0 ||
        getnameinfo((struct sockaddr *)&bound, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        fprintf(stderr, "serve: %s port %u: %s\n", o->address, o->port, strerror(errno));
        if (s >= 0) {
            close(s);
        }
        s = -1;
    } else {
        printf(strchr(host, ':') ? "http://[%s]:%s\n" : "http://%s:%s\n", host, port);
        fflush(stdout);
    }
    freeaddrinfo(at);
    return s;
}

/* Sockets enough for the connections. */
static int raise_files(const serve_options *o)
{
    struct rlimit files;
    const rlim_t wanted = o->connections + REFUSED_CONNECTIONS + 4 * o->threads + 64;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) {
        return 1;
    }
    if (files.rlim_max < wanted) {
        fprintf(stderr, "serve: --connections %u: this process may open %llu files\n", o->connections,
                (unsigned long long)files.rlim_max);
        return 0;
    }
    files.rlim_cur = wanted;
    return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

static int start_daemon(server *s)
{
    const serve_options *o = &s->options;
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
        NULL, on_access, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        s, MHD_OPTION_URI_LOG_CALLBACK, on_request, s, MHD_OPTION_CONNECTION_LIMIT,
        2 * (o->connections + REFUSED_CONNECTIONS) + o->threads, MHD_OPTION_THREAD_POOL_SIZE,
        o->threads > 1 ? o->threads : 0, MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, MHD_OPTION_END);
    if (!s->daemon) {
        fputs("serve: libmicrohttpd does not start\n", stderr);
    }
    return s->daemon != NULL;
}

/* Accepts what waits, some of it if that is much. Returns 0 if the next has to wait. */
static int accept_clients(server *s, int listening)
{
    for (int i = 0; i < SOMAXCONN; i++) {
        pthread_mutex_lock(&s->lock);
        const int full = s->count >= s->options.connections + REFUSED_CONNECTIONS;
        pthread_mutex_unlock(&s->lock);
        if (full) {
            return 0;
        }
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        const int made = accept4(listening, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (made < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED || errno == EINTR;
        }
        (void)MHD_add_connection(s->daemon, made, (struct sockaddr *)&from, length); /* closes it on failure */
    }
    return 1;
}

/* Ends connections that take too long; libmicrohttpd then finds them closed. Its release 0.9.75 may miss that a client
 * has gone in the middle of a request: such connections count until their deadline, too. */
static void end_slow(server *s)
{
    const uint64_t now = serve_clock();
    pthread_mutex_lock(&s->lock);
    for (client *c = s->clients; c; c = c->next) {
        if (c->deadline && now > c->deadline) {
            shutdown(c->socket, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void serve(server *s, int listening, const sigset_t *waiting)
{
    int accepts = 1;
    while (!stop_signal) {
        struct pollfd in = {.fd = accepts ? listening : -1, .events = POLLIN};
        const struct timespec tick = {0, TICK_NANOSECONDS};
        (void)ppoll(&in, 1, &tick, waiting);
        accepts = accept_clients(s, listening);
        end_slow(s);
    }
}

/* Answers the requests that run, then ends. */
static void end(server *s, int listening)
{
    s->ending = 1;
    (void)accept_clients(s, listening);
    close(listening);
    serve_models_end(s->models);
    /* What clients have sent so far is read in this time. */
    for (uint32_t running = 1; running > 0;) {
        const struct timespec tick = {0, TICK_NANOSECONDS};
        (void)nanosleep(&tick, NULL);
        end_slow(s);
        pthread_mutex_lock(&s->lock);
        running = s->running;
        pthread_mutex_unlock(&s->lock);
    }
    MHD_stop_daemon(s->daemon);
    fprintf(stderr, "serve: ended by %s after %llu requests\n", strsignal(stop_signal),
            (unsigned long long)s->requests);
}

static int usage(void)
{
    fputs(
        "usage: serve MODEL [--port N] [--address A] [--threads N] [--top N] [--rows N] [--body BYTES] [--seconds N]\n"
        "                   [--connections N]\n",
        stderr);
    return 2;
}

/* The value of an option, a number from `least` to `most`. */
static int read_number(const char *name, const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < least || number > most) {
        fprintf(stderr, "serve: --%s %s: a number, %u to %u, is accepted\n", name, text, least, most);
        return 0;
    }
    *out = (uint32_t)number;
    return 1;
}

/* 0, or the status to end with. */
static int read_options(int argc, char **argv, serve_options *o)
{
    const struct {
        const char *name;
        uint32_t least, most, *out;
    } numbers[] = {{"port", 0, 65535, &o->port},
                   {"threads", 1, 256, &o->threads},
                   {"top", 1, XSM_TOP_MAX, &o->top},
                   {"rows", 1, 65536, &o->rows},
                   {"body", 1, 1 << 30, &o->body},
                   {"seconds", 1, 3600, &o->seconds},
                   {"connections", 1, 100000, &o->connections}};
    enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
    struct option options[NUMBERS + 2] = {[NUMBERS] = {"address", required_argument, NULL, NUMBERS}};
    for (int i = 0; i < NUMBERS; i++) {
        options[i] = (struct option){numbers[i].name, required_argument, NULL, i};
    }
    for (int found; (found = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (found == NUMBERS) {
            o->address = optarg;
        } else if (found < 0 || found > NUMBERS ||
                   !read_number(numbers[found].name, optarg, numbers[found].least, numbers[found].most,
                                numbers[found].out)) {
            return found > NUMBERS ? usage() : 2;
        }
    }
    o->path = argv[optind];
    return argc == optind + 1 ? 0 : usage();
}

int main(int argc, char **argv)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    server s = {.options = {.address = "127.0.0.1",
                            .port = 8080,
                            .threads = processors > 0 && processors <= 256 ? (uint32_t)processors : 1,
                            .top = 5,
                            .rows = 256,
                            .connections = 256,
                            .seconds = 10,
                            .body = 1 << 20}};
    const int misuse = read_options(argc, argv, &s.options);
    if (misuse) {
        return misuse;
    }
    sigset_t ends, waiting;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, &waiting); /* in all threads; one waits for them */
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    json_set_alloc_funcs(serve_allocate, serve_release);
    json_object_seed(0);
    pthread_mutex_init(&s.lock, NULL);
    int listening = -1;
    const int runs = raise_files(&s.options) && (s.models = serve_models_open(&s.options)) && start_daemon(&s) &&
                     (listening = open_socket(&s.options)) >= 0;
    if (runs) {
        serve(&s, listening, &waiting);
        end(&s, listening);
    } else if (s.models) {
        serve_models_end(s.models);
        if (s.daemon) {
            MHD_stop_daemon(s.daemon);
        }
    }
    serve_models_free(s.models);
    pthread_mutex_destroy(&s.lock);
    return runs ? 0 : 1;
}
