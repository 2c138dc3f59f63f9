//! Keys of routing within the subnet and to other subnets.

macro_rules! routing {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Routing";
        /// Count routes to switches, too, when link load is balanced.
        port_profile_switch_nodes: bool = false, reload, implemented;
        /// Path of a file of ports to exclude from link load balancing: switch GUIDs with port
        /// numbers, or port GUIDs.
        port_prof_ignore_file: Option<String> = None, restart, implemented;
        /// Path of a file of the cables that the fabric should have, in the format of NVIDIA's subnet
        /// manager: source GUID, port, destination GUID, port, device type, link state. Swapped and
        /// unexpected cables are incidents; routes use all cables.
        topo_config_file: Option<String> = None, reload, implemented;
        /// Path of a file of hop weights of switch ports.
        hop_weights_file: Option<String> = None, restart, implemented;
        /// Path of a file of the order in which the ports of a switch are tried.
        port_search_ordering_file / dimn_ports_file: Option<String> = None, restart, implemented;
        /// Routing engines to try in this order, separated by commas: minhop, updn, dnup, dor,
        /// file, ftree, pqft, lash, sssp, dfsssp, nue, torus-2QoS, chain (rch_policy_file); with
        /// adaptive routing ar_updn, ar_ftree, ar_dor, ar_torus, ar_minhop. minhop comes last unless
        /// no_fallback is in the list.
        /// (null) is minhop.
        routing_engine: Option<String> = None, restart, implemented;
        /// Refuse routes that leave pairs of hosts without a route or have a credit loop (updn, dnup,
        /// ftree), also one that packets of switches close. FALSE programs them with a warning.
        refuse_faulty_routes: bool = false, reload, implemented;
        /// Route around damage for which torus-2QoS refuses a fabric, such as two missing switches, with
        /// the same SLs and VLs and without credit loops (torus-2QoS). FALSE refuses such fabrics.
        torus_repair: bool = true, reload, implemented;
        /// Remove the entries of forwarding tables that change before new ones are written, so that
        /// old and new routes are never mixed and no credit loop can form. The pairs concerned are
        /// not connected meanwhile, for transition_drain_time. FALSE keeps them connected.
        strict_transitions: bool = false, reload, implemented;
        /// Time in milliseconds between the removal of entries and new ones (strict_transitions), at
        /// most 600000; 0 is twice the time that a switch keeps a packet (packet_life_time), 2147 by
        /// default.
        transition_drain_time: u32 = 0, reload, implemented, range(0, 600_000);
        /// Path of the port groups of routing chains (engine chain).
        pgrp_policy_file: Option<String> = None, restart, implemented;
        /// Path of the topologies of routing chains (engine chain).
        topo_policy_file: Option<String> = None, restart, implemented;
        /// Path of the steps of routing chains (engine chain).
        rch_policy_file: Option<String> = None, restart, implemented;
        /// Route around throttled links between switches (nue, dfsssp, sssp).
        avoid_throttled_links: bool = false, restart, implemented;
        /// Route between root switches (updn, dnup, ftree).
        connect_roots: bool = false, reload, implemented;
        /// Keep unicast routes while only hosts and leaf switches go and return.
        use_ucast_cache: bool = false, restart, implemented;
        /// Path of a dump of hop counts that the engine file loads.
        lid_matrix_dump_file: Option<String> = None, restart, implemented;
        /// Path of a dump of linear forwarding tables that the engine file loads.
        lfts_file: Option<String> = None, restart, implemented;
        /// Path of a file of the GUIDs of root nodes, one per line (updn, dnup, ftree, pqft).
        root_guid_file: Option<String> = None, restart, implemented;
        /// Path of a file of the GUIDs of compute nodes, one per line (ftree, pqft, dfsssp, sssp).
        cn_guid_file: Option<String> = None, restart, implemented;
        /// Path of a file of the GUIDs of I/O nodes, one per line (ftree, pqft, dfsssp, sssp).
        io_guid_file: Option<String> = None, restart, implemented;
        /// Refuse trees with other numbers than LEVELS;CHILDREN,...;PARENTS,...;CABLES,...: one number
        /// for each level of switches, the leaf switches first. (null) takes any tree (pqft).
        pqft_structure: Option<String> = None, reload, implemented;
        /// Index the switches from the roots instead of from a leaf (ftree on incomplete trees).
        quasi_ftree_indexing: bool = false, reload, implemented;
        /// Number of hops in the wrong direction that paths to I/O nodes may have (ftree).
        max_reverse_hops: u16 = 0, restart, implemented;
        /// Path of a file of IDs that replace GUIDs, "guid id" per line (updn).
        ids_guid_file: Option<String> = None, restart, implemented;
        /// Path of a file of port GUIDs in the order in which they are routed (minhop, updn).
        guid_routing_order_file: Option<String> = None, restart, implemented;
        /// Route along the dimensions of a mesh, and over all parallel cables (lash).
        do_mesh_analysis: bool = false, reload, implemented;
        /// First virtual lane, 0 to 15 (lash).
        lash_start_vl: u8 = 0, reload, implemented, range(0, 15).else_low_bits(4);
        /// Limit of virtual lanes, 0 to 255; 0 uses all lanes that the fabric supports (nue).
        nue_max_num_vls: u8 = 1, reload, implemented;
        /// Route data traffic to and from the switches themselves, too (nue).
        nue_include_switches: bool = false, restart, implemented;
        /// Shift routes among equal ports to break alignments.
        port_shifting: bool = false, reload, implemented;
        /// Seed for a random choice among equal ports; 0 takes the ports in turn.
        scatter_ports: u32 = 0, reload, implemented;
        /// Exclude the ports of guid_routing_order_file from scatter_ports.
        guid_routing_order_no_scatter: bool = false, restart, implemented;
        /// Balance the routes again between sweeps, from scratch (minhop, updn, dor).
        offsweep_balancing_enabled: bool = false, reload, implemented;
        /// Seconds without a change of the subnet before routes are balanced again.
        offsweep_balancing_window: u32 = 180, reload, implemented;
        /// Path of a dump of the SA database to load at start.
        sa_db_file: Option<String> = None, restart, implemented;
        /// Write the SA database to opensm-sa.dump after changes and at exit, as with log flag 0x04.
        sa_db_dump: bool = false, reload, implemented;
        /// Path of the file that describes the torus (torus-2QoS).
        torus_config: String = "/etc/opensm/torus-2QoS.conf".into(), reload, implemented;
    } };
}
pub(super) use routing;

macro_rules! adaptive {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Adaptive routing";
        /// Adaptive routing of switches by Mellanox (NVIDIA): 0: off, 1: on, 2: as 1 (notifications
        /// are not supported), 3: on with the engines ar_updn, ar_ftree, ar_dor, ar_torus and
        /// ar_minhop. Experimental: not confirmed on hardware.
        ar_mode: u8 = 3, reload, implemented, range(0, 3).else_use(0);
        /// Local repair of routes (SHIELD) by switches by Mellanox (NVIDIA), which take another port
        /// when a link goes down: values as for ar_mode. Experimental: not confirmed on hardware.
        shield_mode: u8 = 3, reload, implemented, range(0, 3).else_use(0);
        /// SLs whose packets are routed adaptively, bit n for SL n.
        ar_sl_mask: u16 = 0xffff, reload, implemented, hex(4);
        /// Transports whose packets are routed adaptively, 0 to 0xf: bit 0: UD, bit 1: RC, bit 2:
        /// UC, bit 3: DC.
        ar_transport_mask: u8 = 0xa, reload, implemented, hex(1).range(0, 15).else_low_bits(4);
        /// Route adaptively only to devices that announce that they reorder packets. FALSE does so
        /// to all.
        enable_ar_by_device_cap: bool = true, reload, implemented;
        /// Copy equal groups within a switch instead of sending each.
        enable_ar_group_copy: bool = false, reload, ignored(NO_EQUAL_GROUPS);
        /// SL of notifications between switches (FRN), 0 to 15.
        pfrn_sl: u8 = 0, reload, ignored(NO_NOTIFICATIONS), range(0, 15);
        /// Time after which a switch forgets a notification, in seconds.
        pfrn_mask_clear_timeout: u16 = 180, reload, ignored(NO_NOTIFICATIONS), range(0, 0x7ff);
        /// Time after which a switch forgets all notifications, in seconds.
        pfrn_mask_force_clear_timeout: u16 = 720, reload, ignored(NO_NOTIFICATIONS), range(0, 0x7ff);
        /// Let notifications cross routers.
        pfrn_over_router_enabled: bool = false, reload, ignored(NO_NOTIFICATIONS);
    } };
}
pub(super) use adaptive;

macro_rules! routers {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Routers and IPv6";
        /// Path of the file that assigns routers to subnet prefixes.
        prefix_routes_file: Option<String> = path("prefix-routes.conf"), restart, implemented;
        /// Alias GUIDs of ports for routers: 0: leave them, 1: create, 2: remove. An option of
        /// NVIDIA's OpenSM.
        rtr_aguid_enable: u8 = 0, reload, ignored(NO_ROUTER_ALIASES), range(0, 2).else_use(0);
        /// Flow label of paths to other subnets, 0 to 0xfffff.
        rtr_pr_flow_label: u32 = 0, reload, implemented, hex(5).range(0, 0xf_ffff);
        /// Traffic class of paths to other subnets, 0 to 255.
        rtr_pr_tclass: u8 = 0, reload, implemented;
        /// Service level of paths to other subnets, 0 to 15; 255 uses that of other paths.
        /// torus-2QoS uses its highest bit only.
        rtr_pr_sl: u8 = RTR_PR_INHERIT, reload, implemented, range(0, 15).or(OTHER_PATHS);
        /// Largest MTU of paths to other subnets as a code, 1 to 5: 1: 256, 2: 512, 3: 1024,
        /// 4: 2048, 5: 4096 bytes; 255 uses that of the path to the router.
        rtr_pr_mtu / rtr_p_mtu: u8 = RTR_PR_INHERIT, reload, implemented, range(1, 5).or(ROUTER_PATH);
        /// Largest rate of paths to other subnets as a code, 2 to 24 (3: 10, 7: 40, 16: 100
        /// Gb/s …); 255 uses that of the path to the router.
        rtr_pr_rate: u8 = RTR_PR_INHERIT, reload, implemented, range(2, 24).or(ROUTER_PATH);
        /// Let IPv6 solicited-node multicast groups share MLIDs.
        consolidate_ipv6_snm_req: bool = false, reload, implemented;
    } };
}
pub(super) use routers;
